//! What Python kernels are given before their first cell, and asked after each.

use std::path::Path;

use crate::python_source::FOREIGN;

/// The name of the expression that is asked for with each cell.
pub(super) const REPORT: &str = "warmcell";
/// The expression.
pub(super) const REPORT_CODE: &str =
    "__import__('sys').modules['_warmcell_bridge'].report(globals())";

/// Code that gives a kernel what it is to have.
pub(super) fn installing(tools: &Path) -> String {
    format!(
        "exec(compile({}, '<warmcell>', 'exec'), {{'__name__': '_warmcell_bridge', \
         '_user': globals(), '_tools': {}}})",
        literal(FOREIGN),
        literal(&tools.display().to_string())
    )
}

/// Code that tells it which cell comes, where that is to run, and whether it may ask for input.
pub(super) fn beginning(cell: u64, directory: Option<&str>, allows_input: bool) -> String {
    let directory = directory.unwrap_or("None");
    let allows_input = if allows_input { "True" } else { "False" };
    format!(
        "__import__('sys').modules['_warmcell_bridge'].begin({cell}, {directory}, {allows_input})"
    )
}

/// A text as Python writes it: JSON without escapes of its own for what is no ASCII is that too.
pub(super) fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
