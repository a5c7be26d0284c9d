//! `read_file`: the text of some lines of a file, exactly as it is on disk.
//!
//! The file is streamed once, so that lines can be counted to its end in little memory. Nothing
//! is remembered between calls: the same call on the same file gives the same answer.

use std::fs::File;
use std::io::{self, Read};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::files::{self, Errand};
use super::lines::{Bounds, LineWindow};
use super::paths::PathGuard;
use super::shown::{named, other_name, shown};
use super::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};

/// The most lines of one answer.
const MAX_LINES: i64 = 2000;

/// The most text of one answer. A reply frame holds 16 MiB of JSON, where a character may take up
/// to six bytes, so both the text and its JSON form have a limit.
const BOUNDS: Bounds = Bounds {
    bytes: 10_000_000,
    json_bytes: 15 * 1024 * 1024,
};

/// How much of the beginning is searched for NUL bytes.
const SNIFFED_BYTES: usize = 1000;

const CHUNK_BYTES: usize = 128 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

static SPEC: ToolSpec = ToolSpec {
    name: "read_file",
    about: "Reads lines of a UTF-8 text file; content is the raw text, without line numbers.",
    parameters: &[
        Parameter {
            name: "path",
            json_type: "string",
            default: ParameterDefault::Required,
            about: "The file; relative to the working directory, ~ is the user's home.",
        },
        Parameter {
            name: "offset",
            json_type: "integer",
            default: ParameterDefault::Integer(1),
            about: "The first line, counted from 1.",
        },
        Parameter {
            name: "limit",
            json_type: "integer",
            default: ParameterDefault::Integer(MAX_LINES),
            about: "The most lines to return, up to 2000; go on at next_offset.",
        },
    ],
    returns: &[
        "content",
        "total_lines",
        "file_size",
        "truncated",
        "next_offset",
        "is_binary",
    ],
    refused: &[],
};

const ERRAND: Errand = Errand {
    tool: "read_file",
    attempt: "read",
    with_folder: "list it with os.listdir and name a file in it",
    with_other: "open it in the cell if you mean to wait for its data",
};

/// Reads lines of a text file.
///
/// `content` holds the bytes of the lines as they are, line endings included; only a UTF-8 byte
/// order mark at the start of the file is left out (`write_file` keeps the one that is on disk).
/// `truncated` is true exactly when `next_offset` is a number. A line longer than a reply may be is
/// cut, and its rest cannot be read with this tool.
#[derive(Debug, Default)]
pub struct ReadFile;

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> ToolResult {
        let outcome = match Request::from_arguments(&arguments) {
            Ok(request) => {
                files::run_blocking(SPEC.name, context, move |context, stop| {
                    request.read(context, stop)
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(Reading::Text(page)) => page.into_result(),
            Ok(Reading::Binary(binary)) => binary.into_result(),
            Err(failure) => failure.into_result(&SPEC),
        }
    }
}

#[derive(Debug)]
struct Request {
    path: String,
    offset: u64,
    limit: u64,
}

#[derive(Debug)]
enum Reading {
    Text(Page),
    Binary(Binary),
}

#[derive(Debug)]
struct Page {
    content: String,
    total_lines: u64,
    file_size: u64,
    next_offset: Option<u64>,
}

#[derive(Debug)]
struct Binary {
    file_size: u64,
    failure: ToolFailure,
}

impl Request {
    fn from_arguments(arguments: &Arguments) -> Result<Self, ToolFailure> {
        arguments.check_names(&SPEC)?;
        let path = arguments.text("path")?.to_owned();
        let number = |name: &str, default: i64| -> Result<u64, ToolFailure> {
            let value = arguments.optional_integer(name)?.unwrap_or(default);
            u64::try_from(value)
                .map(|value| value.max(1))
                .map_err(|_negative| {
                    ToolFailure::usage(format!(
                        "read_file: '{name}' must be 1 or more, got {value}"
                    ))
                })
        };
        Ok(Self {
            path,
            offset: number("offset", 1)?,
            limit: number("limit", MAX_LINES)?.min(MAX_LINES.unsigned_abs()),
        })
    }

    fn read(
        &self,
        context: &ToolContext,
        stop: &CancellationToken,
    ) -> Result<Reading, ToolFailure> {
        let guard = PathGuard::new(context);
        let asked = context.resolve(&self.path)?;
        let path = guard.for_reading(&self.path, &asked)?;
        let name = named(&self.path, &path);
        let Some((mut file, metadata)) = ERRAND.open(&path, &name)? else {
            // The everyday case: no more words than needed.
            let also = other_name(&self.path, &path)
                .map_or_else(String::new, |other| format!(" (that is {other})"));
            let given = shown(&self.path);
            return Err(ToolFailure::failed(format!(
                "File not found: {given}{also}"
            )));
        };
        guard.opened_for_reading(&self.path, &file)?;
        self.scan(&mut file, metadata.len(), &name, stop)
    }

    fn scan(
        &self,
        file: &mut File,
        size: u64,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<Reading, ToolFailure> {
        let binary = |kind: &str| {
            Reading::Binary(Binary {
                file_size: size,
                failure: ToolFailure::failed(format!(
                    "{name} is not UTF-8 text: {kind}, {size} bytes; read it in the cell with \
                     open(path, 'rb'), with an encoding, or with a library for its format"
                )),
            })
        };
        let mut window = LineWindow::new(self.offset, self.limit, BOUNDS);
        let mut content: Option<String> = None;
        let mut kind: Option<&'static str> = None;
        let mut read_bytes: u64 = 0;
        let mut chunk = vec![0_u8; CHUNK_BYTES];
        loop {
            if stop.is_cancelled() {
                return Err(files::stopped(SPEC.name, &self.path));
            }
            let count = fill(file, &mut chunk).map_err(|error| ERRAND.failed(name, &error))?;
            let mut bytes = chunk.get(..count).unwrap_or_default();
            if read_bytes == 0 {
                kind = kind_by_first_bytes(bytes);
                if bytes.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
                    return Ok(binary(kind.unwrap_or("it holds NUL bytes")));
                }
                bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
            }
            read_bytes += count as u64;
            window.feed(bytes);
            let at_end = count < CHUNK_BYTES;
            // Checked as soon as the lines are together, so that a large binary file is not
            // counted to its end first.
            if content.is_none() && (at_end || window.is_closed()) {
                match String::from_utf8(window.take_content()) {
                    Ok(text) => content = Some(text),
                    Err(error) => {
                        let valid = error.utf8_error().valid_up_to();
                        let byte = error.as_bytes().get(valid).copied().unwrap_or_default();
                        return Ok(binary(kind.unwrap_or(&format!(
                            "byte 0x{byte:02X} does not belong to a character"
                        ))));
                    }
                }
            }
            if at_end {
                break;
            }
        }
        Ok(Reading::Text(Page {
            content: content.unwrap_or_default(),
            total_lines: window.total_lines(),
            file_size: read_bytes,
            next_offset: window.next_offset(),
        }))
    }
}

impl Page {
    fn into_result(self) -> ToolResult {
        let mut result = ToolResult::new();
        result.insert("content".to_owned(), Value::String(self.content));
        result.insert("total_lines".to_owned(), self.total_lines.into());
        result.insert("file_size".to_owned(), self.file_size.into());
        result.insert("truncated".to_owned(), self.next_offset.is_some().into());
        result.insert("next_offset".to_owned(), self.next_offset.into());
        result.insert("is_binary".to_owned(), false.into());
        result
    }
}

impl Binary {
    fn into_result(self) -> ToolResult {
        let mut result = self.failure.into_result(&SPEC);
        result.insert("file_size".to_owned(), self.file_size.into());
        result.insert("is_binary".to_owned(), true.into());
        result
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Names a format by the bytes that its files begin with.
fn kind_by_first_bytes(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(usize, &[u8], &str)] = &[
        (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (0, b"\xFF\xD8\xFF", "a JPEG image"),
        (0, b"GIF87a", "a GIF image"),
        (0, b"GIF89a", "a GIF image"),
        (8, b"WEBP", "a WebP image"),
        (0, b"II*\0", "a TIFF image"),
        (0, b"MM\0*", "a TIFF image"),
        (0, b"%PDF-", "a PDF document"),
        (
            0,
            b"PK\x03\x04",
            "a ZIP archive (or an Office document, wheel or jar)",
        ),
        (0, b"PK\x05\x06", "an empty ZIP archive"),
        (0, b"\x1F\x8B", "gzip data"),
        (0, b"BZh", "bzip2 data"),
        (0, b"\xFD7zXZ\0", "xz data"),
        (0, b"\x28\xB5\x2F\xFD", "zstd data"),
        (0, b"7z\xBC\xAF\x27\x1C", "a 7z archive"),
        (257, b"ustar", "a tar archive"),
        (0, b"\x7FELF", "an ELF program or library"),
        (0, b"SQLite format 3\0", "an SQLite database"),
        (0, b"\xCA\xFE\xBA\xBE", "a Java class or a macOS program"),
        (0, b"\xCF\xFA\xED\xFE", "a macOS program"),
        (0, b"\0asm", "a WebAssembly module"),
        (0, b"PAR1", "a Parquet table"),
        (0, b"ARROW1", "an Arrow table"),
        (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (0, b"\x93NUMPY", "a NumPy array"),
        (
            0,
            b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1",
            "an old Office document",
        ),
        (8, b"WAVE", "a WAV recording"),
        (0, b"ID3", "an MP3 recording"),
        (0, b"OggS", "an Ogg recording"),
        (4, b"ftyp", "an MP4 film or HEIF image"),
        (0, b"\xFF\xFE", "UTF-16 text"),
        (0, b"\xFE\xFF", "UTF-16 text"),
    ];
    KINDS
        .iter()
        .find(|(at, magic, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
        .map(|(_, _, kind)| *kind)
}

#[cfg(test)]
#[path = "read_file_tests.rs"]
mod tests;
