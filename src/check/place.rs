//! Where a kernel is: its connection file, its sockets, and an empty folder to work in.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bridge::foreign::Places;
use crate::bridge::{OwnFile, make_connection};
use crate::ids::random_hex;
use crate::jupyter::Connection;

/// The random part of a file's name.
const NAME_BYTES: usize = 4;

/// A place for a kernel: where its sockets are, and where it works.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    prefix: PathBuf,
    /// The connection file.
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    _file: OwnFile,
}

impl Place {
    /// A fresh one, its files in these folders.
    pub(super) fn new(
        sockets: &Path,
        work: &Path,
        kernel_name: &str,
        over_tcp: bool,
    ) -> Result<Self, String> {
        let name = format!("k-{}", random_hex(NAME_BYTES));
        let prefix = sockets.join(&name);
        let places = if over_tcp {
            Places::tcp(kernel_name).map_err(|error| format!("no ports: {error}"))?
        } else {
            Places::ipc(&prefix, kernel_name)
        };
        let path = sockets.join(format!("{name}.json"));
        let file = make_connection(&path, &places.connection).map_err(|it| it.to_string())?;
        let folder = work.join(&name);
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self {
            places,
            prefix,
            path,
            folder,
            _file: file,
        })
    }

    /// Where its sockets are.
    pub(super) fn connection(&self) -> &Connection {
        &self.places.connection
    }

    /// Whether one of its sockets is there, as far as that can be seen.
    pub(super) fn has_any(&self) -> bool {
        self.places.has_any()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A kernel that was killed leaves them.
        for port in self.connection().ports {
            for dash in ['-', ':'] {
                let file = format!("{}{dash}{port}", self.prefix.display());
                drop(fs::remove_file(file));
            }
        }
    }
}
