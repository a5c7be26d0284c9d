//! Where the code of cells comes from, and whether it can be a cell.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use super::args::ExecArguments;
use crate::process::in_a_thread;

/// The most bytes of a cell.
const MAX_BYTES: u64 = 8 << 20;
/// What some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The cells, in order, or a sentence that says what is wrong.
///
/// Everything is read before the first cell runs: a row of cells does not stop half way because a
/// file is missing.
///
/// # Cancel safety
///
/// May be dropped; then the process is to end: what is open may be waited for without an end.
pub(super) async fn cells(arguments: &ExecArguments) -> Result<Vec<String>, String> {
    let files = match arguments.code.as_deref() {
        _ if !arguments.files.is_empty() => arguments.files.clone(),
        Some(code) if is_script(code) => {
            return Err(format!(
                "CODE is Python source, and {code:?} is a file; to run the file say -f {code:?}"
            ));
        }
        Some(code) if code != "-" => return Ok(vec![code.to_owned()]),
        None if io::stdin().is_terminal() => {
            return Err(
                "nothing to run: give CODE, -f FILE, or - to read the code from stdin".to_owned(),
            );
        }
        _ => vec![PathBuf::from("-")],
    };
    // Opening and reading may take as long as whoever is at the other end likes.
    let reading = in_a_thread(move || files.iter().map(|path| from_file(path)).collect());
    reading.await.map_err(|error| error.to_string())?
}

/// Whether it is the name of a Python file that is there, where source is expected.
fn is_script(code: &str) -> bool {
    let path = Path::new(code);
    path.extension().is_some_and(|ending| ending == "py") && path.is_file()
}

fn from_file(path: &Path) -> Result<String, String> {
    if path.as_os_str() == "-" {
        return read(io::stdin().lock(), "stdin");
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    read(file, &name)
}

fn read(reader: impl Read, name: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "{name} has more than 8 MiB, the limit of a cell; put data into a file and read it"
        ));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8: the byte at offset {at} makes no character; convert it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_accepted_and_other_bytes_are_named() {
        assert_eq!(read(&b"\xef\xbb\xbfprint(1)"[..], "f").unwrap(), "print(1)");
        let error = read(&b"x = '\xff'"[..], "f.py").unwrap_err();
        assert!(
            error.contains("f.py is not UTF-8: the byte at offset 5"),
            "{error}"
        );
        let long = vec![b'#'; (8 << 20) + 1];
        assert!(
            read(long.as_slice(), "f")
                .unwrap_err()
                .contains("more than 8 MiB")
        );
        assert_eq!(read(&long[1..], "f").unwrap().len(), 8 << 20);
    }
}
