//! Which program a process runs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningProgram {
    /// Its first argument: by which name it was called, if it has not given itself another since.
    pub called: OsString,
    /// The file, without links.
    pub file: PathBuf,
    /// Where it is now.
    pub directory: PathBuf,
}

/// The program of a process, if there is one of this number and it may be looked at.
///
/// Reads three small files of the system's.
pub fn running_program(pid: u32) -> Option<RunningProgram> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let called = arguments.split(|byte| *byte == 0).next()?.to_vec();
    Some(RunningProgram {
        called: OsString::from_vec(called),
        file: fs::read_link(format!("/proc/{pid}/exe")).ok()?,
        directory: fs::read_link(format!("/proc/{pid}/cwd")).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_known() {
        let own = running_program(std::process::id()).unwrap();
        assert_eq!(Some(own.called), std::env::args_os().next());
        assert_eq!(own.file, std::env::current_exe().unwrap());
        assert_eq!(own.directory, std::env::current_dir().unwrap());
        assert_eq!(running_program(u32::MAX), None);
    }
}
