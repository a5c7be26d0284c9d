//! Kernels that are not ours.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A kernel of Jupyter's that is not ours, as its kernelspec says that it is started. Front ends find
/// it (`environment::foreign_kernel`); nothing below them looks for kernelspecs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForeignKernel {
    /// The name of the kernelspec, in lower case.
    pub name: String,
    /// The command; `{connection_file}` and `{resource_dir}` in it stand for paths.
    pub argv: Vec<String>,
    /// Variables that it wants, with `${NAME}` for those that it gets.
    pub env: Vec<(String, String)>,
    /// The language of its cells, `python` for one; empty where that is not said.
    pub language: String,
    /// Whether it is interrupted by a message, and not by SIGINT.
    pub interrupted_by_message: bool,
    /// The folder of the kernelspec.
    pub folder: PathBuf,
}

impl ForeignKernel {
    /// Whether its cells are Python: then it gets the tools, and tells its variables.
    pub fn is_python(&self) -> bool {
        self.language.eq_ignore_ascii_case("python")
    }
}
