//! `write_file`: a whole file, written so that readers see the old text or the new, never a part.
//!
//! Flow: judge the path, look at the file that is there (line endings, byte order mark), make the
//! bytes, put them in place (`replace.rs`), read them back.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::Access;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::output::redact::{contains_marker, marker};

use super::files::{self, Errand};
use super::paths::PathGuard;
use super::replace::{self, NewFolders, Trouble};
use super::shown::{named, shown};
use super::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};

const BYTE_ORDER_MARK: &str = "\u{FEFF}";

/// How much of an existing file decides about its line endings.
const HEAD_BYTES: u64 = 4096;

/// How much of an existing file is looked at to see whether it truly holds numbered lines.
const NUMBERED_BYTES: u64 = 1024 * 1024;

static SPEC: ToolSpec = ToolSpec {
    name: "write_file",
    about: "Writes a whole text file, creating folders as needed; replaces what was there.",
    parameters: &[
        Parameter {
            name: "path",
            json_type: "string",
            default: ParameterDefault::Required,
            about: "The file; relative to the working directory, ~ is the user's home.",
        },
        Parameter {
            name: "content",
            json_type: "string",
            default: ParameterDefault::Required,
            about: "The whole text; a file with CRLF line ends or a byte order mark keeps them.",
        },
    ],
    returns: &["bytes_written", "dirs_created", "resolved_path"],
    refused: &[],
};

const ERRAND: Errand = Errand {
    tool: "write_file",
    attempt: "write",
    with_folder: "name a file in it",
    with_other: "open it in the cell if you mean to write to it",
};

/// Writes a text file.
///
/// The bytes go to a new file beside the target, which then takes its name: a failure leaves the
/// old file as it was. Mode and, where permitted, owner of the old file stay. A symbolic link stays
/// a link and its target is written, also one that does not exist yet. A file with several names
/// (hard links) is written in place, because a new file would take only one of the names; so is one
/// that may be written while its folder may not. There a failure puts the old bytes back.
///
/// `bytes_written` is the size of the file afterwards, `dirs_created` says whether folders had to be
/// made, `resolved_path` is the file that was written, with links resolved.
#[derive(Debug, Default)]
pub struct WriteFile;

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> ToolResult {
        let outcome = match Request::from_arguments(arguments) {
            Ok(request) => {
                files::run_blocking(SPEC.name, context, move |context, stop| {
                    request.write(context, stop)
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(written) => written.into_result(),
            Err(failure) => failure.into_result(&SPEC),
        }
    }
}

#[derive(Debug)]
struct Request {
    path: String,
    content: String,
}

#[derive(Debug)]
struct Written {
    bytes: usize,
    folders_made: bool,
    path: PathBuf,
}

impl Request {
    fn from_arguments(mut arguments: Arguments) -> Result<Self, ToolFailure> {
        arguments.check_names(&SPEC)?;
        let path = arguments.take_text("path")?;
        if let Some((_, "" | "." | "..")) = path.rsplit_once('/') {
            return Err(ToolFailure::usage(format!(
                "write_file: '{}' names a folder; add the name of a file (missing folders are made)",
                shown(&path)
            )));
        }
        Ok(Self {
            path,
            // It may be long: there is one of it.
            content: arguments.take_text("content")?,
        })
    }

    fn write(
        self,
        context: &ToolContext,
        stop: &CancellationToken,
    ) -> Result<Written, ToolFailure> {
        let asked = context.resolve(&self.path)?;
        let path = PathGuard::new(context).for_writing(&self.path, &asked)?;
        let name = named(&self.path, &path);
        let failed = |error: &io::Error| ERRAND.failed(&name, error);
        let mut existing = Existing::open(&path, &name)?;
        if let Some(kind) = contains_marker(&self.content) {
            return Err(ToolFailure::refused(format!(
                "write_file: the text for {name} holds {}, which stands in place of a secret in what \
                 was shown: written to a file it would take the secret's place for good. Leave that \
                 part as it is in the file, take the secret from where it is kept, or, if the marker \
                 itself is meant, write it with open() in the cell",
                marker(kind)
            )));
        }
        if is_numbered(&self.content) {
            let truly = match &mut existing {
                Some(existing) => existing.is_numbered().map_err(|error| failed(&error))?,
                None => false,
            };
            if !truly {
                return Err(ToolFailure::refused(format!(
                    "write_file: the text for {name} looks like a display of a file with line \
                     numbers in front ('1|...'); write the text without them, or, if the file is \
                     to hold them, write it with open() in the cell"
                )));
            }
        }
        let bytes = match &mut existing {
            Some(existing) => existing.fit(self.content).map_err(|error| failed(&error))?,
            None => self.content.into_bytes(),
        };
        let parent = path.parent().unwrap_or(Path::new("/"));
        let folders = NewFolders::make(parent).map_err(|error| failed(&error))?;
        let old = existing.as_ref().map(|existing| &existing.metadata);
        replace::put(&path, old, &bytes, stop).map_err(|trouble| match trouble {
            Trouble::Io(error) => failed(&error),
            Trouble::Stopped => files::stopped(SPEC.name, &self.path),
            Trouble::Differs => ToolFailure::failed(format!(
                "write_file: {name} does not hold what was written: another program changed it at \
                 the same moment, or the disk is at fault; read it and write again"
            )),
            Trouble::Damaged(error) => ToolFailure::failed(format!(
                "write_file: {name} could be neither written nor put back as it was ({error}); it \
                 may hold parts of both texts, so check it"
            )),
        })?;
        Ok(Written {
            bytes: bytes.len(),
            folders_made: folders.keep(),
            path,
        })
    }
}

impl Written {
    fn into_result(self) -> ToolResult {
        let mut result = ToolResult::new();
        result.insert("bytes_written".to_owned(), self.bytes.into());
        result.insert("dirs_created".to_owned(), self.folders_made.into());
        let path = self.path.to_string_lossy().into_owned();
        result.insert("resolved_path".to_owned(), Value::String(path));
        result
    }
}

/// The file that is to be replaced.
#[derive(Debug)]
struct Existing {
    file: File,
    metadata: Metadata,
}

impl Existing {
    fn open(path: &Path, name: &str) -> Result<Option<Self>, ToolFailure> {
        let Some((file, metadata)) = ERRAND.open(path, name)? else {
            return Ok(None);
        };
        // A new file could take the place of a write-protected one, against its owner's wish.
        rustix::fs::access(path, Access::WRITE_OK)
            .map_err(|errno| ERRAND.failed(name, &errno.into()))?;
        Ok(Some(Self { file, metadata }))
    }

    /// The text as bytes, with the line ends and the byte order mark of this file.
    fn fit(&mut self, content: String) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        (&self.file).take(HEAD_BYTES).read_to_end(&mut head)?;
        let mut text = content;
        if head.windows(2).any(|pair| pair == b"\r\n") {
            let bare = has_bare_newline(text.as_bytes(), false).0;
            // A text of both kinds for a file of both kinds was read from it and goes back as it
            // is; any other text takes the kind of the file.
            let keeps = bare && text.contains("\r\n") && self.is_mixed(&head)?;
            if bare && !keeps {
                text = with_carriage_returns(&text);
            }
        }
        if head.starts_with(BYTE_ORDER_MARK.as_bytes()) && !text.starts_with(BYTE_ORDER_MARK) {
            text.insert_str(0, BYTE_ORDER_MARK);
        }
        Ok(text.into_bytes())
    }

    /// Whether a newline without a carriage return is in the file, whose head was read already.
    fn is_mixed(&mut self, head: &[u8]) -> io::Result<bool> {
        let (mut found, mut after_return) = has_bare_newline(head, false);
        let mut chunk = vec![0_u8; 64 * 1024];
        while !found {
            let count = self.file.read(&mut chunk)?;
            if count == 0 {
                break;
            }
            (found, after_return) =
                has_bare_newline(chunk.get(..count).unwrap_or_default(), after_return);
        }
        Ok(found)
    }

    /// Whether the file itself, as it is on disk, looks like numbered output.
    fn is_numbered(&mut self) -> io::Result<bool> {
        use std::io::Seek;
        let mut bytes = Vec::new();
        (&self.file).take(NUMBERED_BYTES).read_to_end(&mut bytes)?;
        self.file.rewind()?;
        Ok(is_numbered(&String::from_utf8_lossy(&bytes)))
    }
}

/// The text with a carriage return before every newline.
fn with_carriage_returns(text: &str) -> String {
    let newlines = text.bytes().filter(|byte| *byte == b'\n').count();
    let mut returned = String::with_capacity(text.len() + newlines);
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(bare) if !bare.ends_with('\r') => {
                returned.push_str(bare);
                returned.push_str("\r\n");
            }
            _ => returned.push_str(line),
        }
    }
    returned
}

/// Whether a newline without a carriage return before it is there, and whether the last byte is a
/// carriage return.
fn has_bare_newline(bytes: &[u8], mut after_return: bool) -> (bool, bool) {
    let mut found = false;
    for byte in bytes {
        found |= *byte == b'\n' && !after_return;
        after_return = *byte == b'\r';
    }
    (found, after_return)
}

/// Whether a text is what a tool showed of a file, with `N|` in front of each line.
///
/// At least three lines, and three of five of those that are not empty, must count up one by one:
/// a file of records such as `7|x`, `3|y` does not.
fn is_numbered(text: &str) -> bool {
    let mut lines = 0_usize;
    let mut counting = 0_usize;
    let mut run = 0_usize;
    let mut previous: Option<u64> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        lines += 1;
        let Some(number) = number_in_front(line) else {
            continue;
        };
        if previous.and_then(|previous| previous.checked_add(1)) == Some(number) {
            run += 1;
            // The first of a run is known to be one only at the second.
            counting += if run == 1 { 2 } else { 1 };
        } else {
            run = 0;
        }
        previous = Some(number);
    }
    counting >= 3 && counting * 5 >= lines * 3
}

fn number_in_front(line: &str) -> Option<u64> {
    let (digits, _) = line.split_once('|')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
#[path = "write_file_tests.rs"]
mod tests;
