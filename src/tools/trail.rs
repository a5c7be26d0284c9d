//! The names that a path goes by on the way to its file.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many links as Linux itself follows for one path.
pub(crate) const MAX_LINKS: usize = 40;

/// Takes `.` and `..` out by the letters alone.
pub(crate) fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// The way from a path to its file.
#[derive(Debug)]
pub(crate) struct Trail {
    /// The name of the file or link at each stop.
    pub(crate) names: Vec<PathBuf>,
    /// The file itself, which may not exist; `None` after too many links.
    pub(crate) end: Option<PathBuf>,
    /// The first part that is used as a folder (`..`, `.` or `/` follows it) and is none.
    pub(crate) fault: Option<Fault>,
}

/// What is used as a folder and is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is something else.
    NoFolder(PathBuf),
    /// It is not there.
    Missing(PathBuf),
}

impl Fault {
    fn of(folder: &Path) -> Option<Self> {
        match std::fs::symlink_metadata(folder) {
            Ok(found) if found.is_dir() => None,
            Ok(_) => Some(Self::NoFolder(folder.to_path_buf())),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => Some(Self::Missing(folder.to_path_buf())),
                io::ErrorKind::NotADirectory => Some(Self::NoFolder(folder.to_path_buf())),
                // Opening the file will say what is wrong.
                _ => None,
            },
        }
    }
}

impl Trail {
    /// Goes part by part, because the names between are wanted and because the last parts may not
    /// exist yet.
    pub(crate) fn follow(path: &Path) -> Self {
        let mut names = Vec::new();
        let mut links = 0_usize;
        let mut here = PathBuf::from("/");
        let mut ahead: VecDeque<OsString> = parts_of(path).collect();
        let mut fault = None;
        while let Some(part) = ahead.pop_front() {
            if part == ".." || part == "." {
                fault = fault.or_else(|| Fault::of(&here));
                if part == ".." {
                    here.pop();
                }
                continue;
            }
            here.push(&part);
            if ahead.iter().all(|part| part == ".") {
                names.push(here.clone());
            }
            // Any error means: no link that could be followed. Opening the file will say why.
            let Ok(target) = std::fs::read_link(&here) else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Self {
                    names,
                    end: None,
                    fault,
                };
            }
            if target.is_absolute() {
                here = PathBuf::from("/");
            } else {
                here.pop();
            }
            for part in parts_of(&target).collect::<Vec<_>>().into_iter().rev() {
                ahead.push_front(part);
            }
        }
        names.push(here.clone());
        Self {
            names,
            end: Some(here),
            fault,
        }
    }
}

/// The names in a path and its `..`; a `.` stands at the end if the path says that it is a folder.
fn parts_of(path: &Path) -> impl Iterator<Item = OsString> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_folder = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .chain(is_folder.then(|| OsString::from(".")))
}
