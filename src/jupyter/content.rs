//! Typed views of message contents.
//!
//! Reading is tolerant: unknown keys are skipped, a key that is null or of another type counts as
//! missing unless the view cannot do without it, and lone surrogates become U+FFFD. Shapes: Jupyter
//! messaging, plus the object `warmcell` in `execute_request` and `execute_reply`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::bundle::MimeBundle;
use super::error::ContentError;
use super::lenient::{self, Text, or_default};
use super::plain;
use crate::config::Had;

/// The content of an `execute_request`.
#[derive(Debug, Clone, Copy)]
pub struct ExecuteRequest<'a> {
    /// The cell.
    pub code: &'a str,
    /// The cell's number: rising per session over all its kernels, never 0.
    pub cell: u64,
    /// Whether the kernel may ask the front end for a line of input.
    pub allow_stdin: bool,
    /// The directory to which the kernel is to change before the cell runs.
    pub cwd: Option<&'a Path>,
    /// Whether nothing of it is shown, and history does not keep it.
    pub silent: bool,
    /// Whether history keeps it and it gets a number.
    pub store_history: bool,
    /// What is to be evaluated after it, as a JSON object of expressions by name.
    pub user_expressions: Option<&'a RawValue>,
    /// The id of the message with which a front end has sent it: by that it knows what the cell shows.
    pub origin: Option<&'a str>,
}

impl<'a> ExecuteRequest<'a> {
    /// A cell that may not ask for input.
    pub fn new(code: &'a str, cell: u64) -> Self {
        Self {
            code,
            cell,
            allow_stdin: false,
            cwd: None,
            silent: false,
            store_history: true,
            user_expressions: None,
            origin: None,
        }
    }

    /// The content as JSON.
    pub fn to_bytes(&self) -> Bytes {
        // Without a tree of values in between: the code can be megabytes, and this is once a cell.
        let code = serde_json::to_string(self.code).unwrap_or_default();
        let cwd = self.cwd.map(in_json);
        let (key, cwd) = cwd.as_deref().map_or(("", ""), |it| (",\"cwd\":", it));
        let origin = self
            .origin
            .and_then(|origin| serde_json::to_string(origin).ok())
            .map_or_else(String::new, |origin| format!(",\"origin\":{origin}"));
        let expressions = self.user_expressions.map_or("{}", RawValue::get);
        Bytes::from(format!(
            "{{\"code\":{code},\"silent\":{},\"store_history\":{},\
             \"user_expressions\":{expressions},\"allow_stdin\":{},\"stop_on_error\":true,\
             \"warmcell\":{{\"cell\":{}{key}{cwd}{origin}}}}}",
            self.silent, self.store_history, self.allow_stdin, self.cell
        ))
    }
}

/// A path as text, or as a list of bytes where it is not UTF-8.
fn in_json(path: &Path) -> String {
    match path.to_str() {
        Some(text) => serde_json::to_string(text),
        None => serde_json::to_string(path.as_os_str().as_bytes()),
    }
    .unwrap_or_default()
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReplyStatus {
    /// It ran to its end.
    Ok,
    /// It raised, or did not compile.
    Error,
    /// It never ran, because an earlier one failed.
    #[serde(alias = "abort")]
    Aborted,
}

/// The content of an `execute_reply`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ExecuteReply {
    /// How the cell ended.
    pub status: ReplyStatus,
    /// The kernel's own count of cells.
    #[serde(default, deserialize_with = "or_default")]
    pub execution_count: Option<u64>,
    /// The exception's class; empty where there is none.
    #[serde(default, deserialize_with = "or_default")]
    pub ename: String,
    /// The exception's text; empty where there is none.
    #[serde(default, deserialize_with = "or_default")]
    pub evalue: String,
    /// The traceback, one line or several in each item.
    #[serde(default, deserialize_with = "texts")]
    pub traceback: Vec<String>,
    /// What became of the expressions that were asked for, as JSON.
    #[serde(default, deserialize_with = "json_text")]
    pub user_expressions: Option<String>,
    /// What our own kernel adds; a foreign one does not.
    #[serde(default, deserialize_with = "or_default")]
    pub warmcell: Option<CellReport>,
}

impl ExecuteReply {
    /// Changes the texts that tell how the cell ended: what `change` gives takes the place of each.
    pub fn change_texts(&mut self, change: &mut dyn FnMut(&str) -> Option<String>) {
        // What is to be found in it may go over several lines.
        if let Some(changed) = change(&self.traceback.join("\n")) {
            self.traceback = changed.split('\n').map(str::to_owned).collect();
        }
        let mut texts = vec![&mut self.ename, &mut self.evalue];
        texts.extend(&mut self.user_expressions);
        if let Some(report) = &mut self.warmcell {
            if let Some(error) = &mut report.error {
                texts.push(&mut error.line);
                if let Some(missing) = &mut error.missing {
                    texts.extend([&mut missing.module, &mut missing.python]);
                    texts.extend(missing.package.iter_mut().chain(&mut missing.file));
                }
            }
            texts.extend(report.exit.as_mut().and_then(|exit| exit.text.as_mut()));
        }
        for text in texts {
            if let Some(changed) = change(text) {
                *text = changed;
            }
        }
    }

    /// Reads a reply.
    ///
    /// # Errors
    ///
    /// If it is no JSON object with a known `status`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        plain::reply(bytes).map_or_else(|| read("execute_reply", bytes), Ok)
    }
}

/// The last line of a traceback. Of kernels that are not ours some give their errors no name, or no
/// text.
pub fn error_line(ename: &str, evalue: &str) -> String {
    match (ename.trim(), evalue.trim()) {
        ("", "") => "the cell failed, and its kernel does not say why".to_owned(),
        ("", _) => evalue.to_owned(),
        (_, "") => ename.to_owned(),
        _ => format!("{ename}: {evalue}"),
    }
}

/// What our kernel reports of a cell beyond Jupyter's reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CellReport {
    /// The number that came with the request; 0 where it is missing.
    #[serde(deserialize_with = "or_default")]
    pub cell: u64,
    /// Set if the cell called `sys.exit`.
    #[serde(deserialize_with = "or_default")]
    pub exit: Option<Exit>,
    /// What became of the global names.
    #[serde(deserialize_with = "or_default")]
    pub names: Names,
    /// Sentences for the caller.
    #[serde(deserialize_with = "texts")]
    pub warnings: Vec<String>,
    /// Limits that the kernel has in place of others that it was to have.
    #[serde(deserialize_with = "limits")]
    pub limits: Vec<Had>,
    /// Where and how the cell failed.
    #[serde(deserialize_with = "or_default")]
    pub error: Option<ErrorPlace>,
    /// Whether it was interrupted before its code had ended, whatever it made of that.
    #[serde(deserialize_with = "or_default")]
    pub interrupted: bool,
    /// Milliseconds between the end of the cell and this report, in which the kernel was asked about
    /// it: they are not the cell's.
    #[serde(deserialize_with = "or_default")]
    pub after_end_ms: u64,
    /// Whether it ended by `exit()` or `quit()`, which at a prompt mean the prompt.
    #[serde(deserialize_with = "or_default")]
    pub asks_exit: bool,
}

/// A call of `sys.exit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Its argument, 0 for None; of a number that no `i64` holds what a system would make of it,
    /// and what is no number is 1.
    #[serde(deserialize_with = "exit_code")]
    pub code: i64,
    /// Its argument, if that was neither a number nor None.
    #[serde(deserialize_with = "or_default")]
    pub text: Option<String>,
    /// Its argument in words, if that was a number that `code` does not hold.
    #[serde(deserialize_with = "or_default")]
    pub number: Option<String>,
}

/// Global names after a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Names {
    /// Names that were bound, with the type of the value; at most 200, the latest last.
    #[serde(deserialize_with = "pairs")]
    pub set: Vec<(String, String)>,
    /// Names that are gone.
    #[serde(deserialize_with = "texts")]
    pub del: Vec<String>,
    /// How many there are.
    #[serde(deserialize_with = "or_default")]
    pub total: u64,
}

/// How and where a cell failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ErrorPlace {
    /// The error class of the result (`syntax`, `exception`, `missing_module`, ...).
    #[serde(deserialize_with = "or_default")]
    pub class: String,
    /// The last line of the traceback, as in `NameError: name 'x' is not defined`.
    #[serde(deserialize_with = "or_default")]
    pub line: String,
    /// The innermost line of a cell, as in `<cell 3>, line 2`.
    #[serde(deserialize_with = "or_default")]
    pub place: Option<String>,
    /// Of a module that could not be imported.
    #[serde(deserialize_with = "or_default")]
    pub missing: Option<MissingModule>,
}

/// What a kernel of ours knows of a module that it could not import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct MissingModule {
    /// Its whole name, as in `google.cloud`.
    #[serde(deserialize_with = "or_default")]
    pub module: String,
    /// The interpreter.
    #[serde(deserialize_with = "or_default")]
    pub python: String,
    /// Whether that has pip.
    #[serde(deserialize_with = "or_default")]
    pub pip: bool,
    /// Whether that can make itself one.
    #[serde(deserialize_with = "or_default")]
    pub ensurepip: bool,
    /// Whether uv is on the kernel's PATH.
    #[serde(deserialize_with = "or_default")]
    pub uv: bool,
    /// Whether its pip refuses, because the system's packages own it.
    #[serde(deserialize_with = "or_default")]
    pub managed: bool,
    /// The file of the package, if that is there and this part of it is not.
    #[serde(deserialize_with = "or_default")]
    pub package: Option<String>,
    /// A file of this name near the working directory.
    #[serde(deserialize_with = "or_default")]
    pub file: Option<String>,
}

/// The content of an `execute_result`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ExecuteResult {
    /// The kernel's own count of cells.
    #[serde(deserialize_with = "or_default")]
    pub execution_count: Option<u64>,
    /// The value of the last expression.
    pub data: MimeBundle,
}

impl ExecuteResult {
    /// Reads a result.
    ///
    /// # Errors
    ///
    /// If it is no JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        read("execute_result", bytes)
    }
}

/// The content of a `display_data` or `update_display_data`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DisplayData {
    /// What is shown.
    pub data: MimeBundle,
    /// How to show it, keyed as in `data`.
    pub metadata: MimeBundle,
    #[serde(deserialize_with = "or_default")]
    transient: Transient,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Transient {
    #[serde(deserialize_with = "or_default")]
    display_id: Option<String>,
}

impl DisplayData {
    /// Reads what is to be shown.
    ///
    /// # Errors
    ///
    /// If it is no JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        read("display_data", bytes)
    }

    /// The name under which a later message may change what is shown.
    pub fn display_id(&self) -> Option<&str> {
        self.transient.display_id.as_deref()
    }
}

/// The content of an `error`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ErrorContent {
    /// The exception's class.
    #[serde(deserialize_with = "or_default")]
    pub ename: String,
    /// The exception's text.
    #[serde(deserialize_with = "or_default")]
    pub evalue: String,
    /// The traceback, one line or several in each item.
    #[serde(deserialize_with = "texts")]
    pub traceback: Vec<String>,
}

impl ErrorContent {
    /// Reads an error.
    ///
    /// # Errors
    ///
    /// If it is no JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        read("error", bytes)
    }
}

/// Any JSON object, as its text; of anything else nothing.
fn json_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?.get();
    Ok(raw.starts_with('{').then(|| raw.to_owned()))
}

/// The strings of a list; what is no string is left out.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let items: Vec<Text> = or_default(deserializer)?;
    Ok(items.into_iter().filter_map(|Text(text)| text).collect())
}

/// Pairs of strings; a pair that has no first one is left out.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let items: Vec<(Text, Text)> = or_default(deserializer)?;
    let pair =
        |(Text(first), Text(second)): (Text, Text)| Some((first?, second.unwrap_or_default()));
    Ok(items.into_iter().filter_map(pair).collect())
}

/// Limits by name, soft and hard; what is unknown is left out.
fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Had>, D::Error> {
    let items: Vec<(Text, i64, i64)> = or_default(deserializer)?;
    let limit = |(Text(name), soft, hard): (Text, i64, i64)| Had::read(&name?, soft, hard);
    Ok(items.into_iter().filter_map(limit).collect())
}

/// What `sys.exit` makes of its argument, within the range of `i64`.
fn exit_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?.get();
    if raw == "null" {
        return Ok(0);
    }
    // JSON carries integers of any length: one that i64 cannot hold keeps its sign.
    Ok(raw.parse().unwrap_or_else(|_| match raw.strip_prefix('-') {
        Some(digits) if is_digits(digits) => i64::MIN,
        None if is_digits(raw) => i64::MAX,
        _ => 1,
    }))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn read<T: serde::de::DeserializeOwned>(
    message: &'static str,
    bytes: &[u8],
) -> Result<T, ContentError> {
    lenient::read(bytes).map_err(|error| ContentError {
        message: message.into(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
