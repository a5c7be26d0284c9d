//! Takes kernelspecs of ours away again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::kernelspec_install::is_ours_in;
use super::kernelspecs::KERNEL_JSON;
use crate::jupyter::{KernelspecError, kernelspec_name};

/// Why a kernelspec was not removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The name will not do.
    #[error(transparent)]
    Name(#[from] KernelspecError),
    /// There is none.
    #[error(
        "there is no kernelspec {name} in {}; `warmcell kernelspec list` shows those there are",
        shown(folders)
    )]
    Missing {
        /// Its name.
        name: String,
        /// Where was looked.
        folders: Vec<PathBuf>,
    },
    /// It is another program's.
    #[error(
        "{path} is not ours, so it is left as it is; `jupyter kernelspec remove {name}` removes any"
    )]
    Foreign {
        /// Its name.
        name: String,
        /// Its folder.
        path: PathBuf,
    },
    /// There are several of ours.
    #[error(
        "several kernelspecs of ours are called {name}: {}; say which with --user, --sys-prefix or \
         --prefix DIR",
        shown(places)
    )]
    Several {
        /// Their name.
        name: String,
        /// Their folders.
        places: Vec<PathBuf>,
    },
    /// It cannot be removed.
    #[error("{path} cannot be removed ({source})")]
    Remove {
        /// What was to be removed.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn shown(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
    shown.join(", ")
}

/// The folders of all kernelspecs of this name in folders of kernelspecs, in their order, also of those
/// that cannot be used; the first of a folder where names differ in case only.
///
/// Reads files (blocking).
pub fn kernelspecs_named(name: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(wanted) = kernelspec_name(name) else {
        return Vec::new();
    };
    let in_folder = |folder: &PathBuf| {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.eq_ignore_ascii_case(&wanted))
                    && path.join(KERNEL_JSON).is_file()
            })
            .collect();
        found.sort();
        found.into_iter().next()
    };
    folders.iter().filter_map(in_folder).collect()
}

/// Removes the one kernelspec of ours that has this name in these folders of kernelspecs; its folder,
/// which goes too, if nothing else is in it but what we have written.
///
/// Blocking.
///
/// # Errors
///
/// If there is none, it is not ours, there are several, or it cannot be removed.
pub fn remove_kernelspec(name: &str, folders: &[PathBuf]) -> Result<PathBuf, RemoveError> {
    kernelspec_name(name)?;
    let named = kernelspecs_named(name, folders);
    let (ours, others): (Vec<PathBuf>, Vec<PathBuf>) =
        named.into_iter().partition(|path| is_ours_in(path));
    match (&ours[..], &others[..]) {
        ([place], _) => {
            remove(place).map_err(|source| RemoveError::Remove {
                path: place.clone(),
                source,
            })?;
            Ok(place.clone())
        }
        ([], []) => Err(RemoveError::Missing {
            name: name.to_owned(),
            folders: folders.to_vec(),
        }),
        ([], [path, ..]) => Err(RemoveError::Foreign {
            name: name.to_owned(),
            path: path.clone(),
        }),
        _ => Err(RemoveError::Several {
            name: name.to_owned(),
            places: ours,
        }),
    }
}

/// What others have put beside it (a logo, say) stays, and so does the folder then.
fn remove(place: &Path) -> io::Result<()> {
    fs::remove_file(place.join(KERNEL_JSON))?;
    match fs::remove_dir(place) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}
