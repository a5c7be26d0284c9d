//! The Python half: embedded in the binary, unpacked once per content into a cache folder.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::folders::{Claim, is_private, is_random_name, private_folder, sweep};
use crate::ids::random_hex;

/// The package that forkserver and kernel are made of.
const PACKAGE: &[(&str, &str)] = &[
    ("__init__.py", include_str!("../python/__init__.py")),
    ("alarm.py", include_str!("../python/alarm.py")),
    ("asking.py", include_str!("../python/asking.py")),
    ("awaiting.py", include_str!("../python/awaiting.py")),
    ("carry.py", include_str!("../python/carry.py")),
    ("cell.py", include_str!("../python/cell.py")),
    ("children.py", include_str!("../python/children.py")),
    ("comms.py", include_str!("../python/comms.py")),
    ("compiling.py", include_str!("../python/compiling.py")),
    ("descriptors.py", include_str!("../python/descriptors.py")),
    ("detaching.py", include_str!("../python/detaching.py")),
    ("display.py", include_str!("../python/display.py")),
    ("expressions.py", include_str!("../python/expressions.py")),
    ("failures.py", include_str!("../python/failures.py")),
    ("forkserver.py", include_str!("../python/forkserver.py")),
    ("frames.py", include_str!("../python/frames.py")),
    ("ground.py", include_str!("../python/ground.py")),
    ("hooks.py", include_str!("../python/hooks.py")),
    ("interrupt.py", include_str!("../python/interrupt.py")),
    ("introspect.py", include_str!("../python/introspect.py")),
    ("job.py", include_str!("../python/job.py")),
    ("kernel.py", include_str!("../python/kernel.py")),
    ("link.py", include_str!("../python/link.py")),
    ("magics.py", include_str!("../python/magics.py")),
    ("mending.py", include_str!("../python/mending.py")),
    ("missing.py", include_str!("../python/missing.py")),
    ("monitoring.py", include_str!("../python/monitoring.py")),
    ("names.py", include_str!("../python/names.py")),
    ("orders.py", include_str!("../python/orders.py")),
    ("own.py", include_str!("../python/own.py")),
    ("packages.py", include_str!("../python/packages.py")),
    (
        "platform_calls.py",
        include_str!("../python/platform_calls.py"),
    ),
    ("program.py", include_str!("../python/program.py")),
    ("questions.py", include_str!("../python/questions.py")),
    ("reports.py", include_str!("../python/reports.py")),
    ("reserve.py", include_str!("../python/reserve.py")),
    ("shadow.py", include_str!("../python/shadow.py")),
    ("shown.py", include_str!("../python/shown.py")),
    ("signals.py", include_str!("../python/signals.py")),
    ("spare.py", include_str!("../python/spare.py")),
    ("streams.py", include_str!("../python/streams.py")),
    ("trackers.py", include_str!("../python/trackers.py")),
    ("variables.py", include_str!("../python/variables.py")),
];

/// What a Python kernel that is not ours is given.
pub const FOREIGN: &str = include_str!("../python/foreign.py");

/// The shim that cells import; the stubs of the tools are added to it.
pub const HERMES_TOOLS: &str = include_str!("../python/hermes_tools.py");

/// The program that the interpreter is given, with folders to remove at its end as its arguments, that
/// of the sockets first: old versions must be able to read it, to say that they are too old.
///
/// What a PYTHONPATH puts before the standard library may bear the name of anything: the forkserver
/// itself never looks there, kernels do; and what site has loaded from there is theirs alone.
pub const BOOT: &str = "\
import sys
if sys.version_info < (3, 8):
    sys.stderr.write('Python %d.%d.%d' % sys.version_info[:3])
    sys.exit(64)
bare = set(sys.modules)
folder = sys.argv[0].rpartition('/')[0]
path = sys.path if getattr(sys.flags, 'safe_path', False) else sys.path[1:]
names = [p.rpartition('/')[2] for p in path]
first = 'python%d%d.zip' % sys.version_info[:2]
first = names.index(first) if first in names else 0
place = sys.base_prefix + '/' + getattr(sys, 'platlibdir', 'lib')
place += '/python%d.%d' % sys.version_info[:2]
standard = [p for p in path[:first] if p == place] + path[first:]
front = tuple(p + '/' for p in path[:first] if p != place)
modules = list(sys.modules.items())
theirs = [(n, m) for n, m in modules if str(getattr(m, '__file__', '')).startswith(front)]
for name, module in theirs:
    del sys.modules[name]
sys.path[:] = [folder, folder + '/tools'] + standard
from _warmcell import forkserver
import hermes_tools
sys.path[:] = standard
forkserver.main(bare, sys.argv[1:], path, dict(theirs))
";

/// Where [`BOOT`] stands in the unpacked sources.
pub const BOOT_FILE: &str = "boot.py";

/// The exit code of [`BOOT`] in an interpreter that is too old.
pub const TOO_OLD: i32 = 64;

/// What the names of folders begin with that are being unpacked.
const NEW: &str = ".new-";
/// What the names of folders begin with that were not what they should be.
const OLD: &str = ".old-";
/// The random part of those names.
const RANDOM_BYTES: usize = 6;

/// The sources could not be unpacked.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot unpack the Python half of warmcell: {}; set HERMES_HOME or TMPDIR to a folder that you \
     can write to",
    tried.join("; ")
)]
pub struct StageError {
    /// Each place that was tried, and why it would not do.
    pub tried: Vec<String>,
}

/// The unpacked sources of a manager: made again where somebody has removed or changed them.
#[derive(Debug)]
pub struct Sources {
    bases: Vec<PathBuf>,
    hermes_tools: String,
    passed_over: Vec<String>,
    folder: Mutex<PathBuf>,
}

impl Sources {
    /// Unpacks them as [`stage`] does. Blocks for file operations.
    ///
    /// # Errors
    ///
    /// If no base can be written to.
    pub fn unpack(bases: Vec<PathBuf>, hermes_tools: &str) -> Result<Self, StageError> {
        let staged = stage(&bases, hermes_tools)?;
        Ok(Self {
            bases,
            hermes_tools: hermes_tools.to_owned(),
            passed_over: staged.passed_over,
            folder: Mutex::new(staged.folder),
        })
    }

    /// Where they are.
    pub fn folder(&self) -> PathBuf {
        self.place().clone()
    }

    /// Places that would not do at first, with the reason.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Whether their folder is there: one system call.
    pub fn are_there(&self) -> bool {
        is_private(&self.place()).is_ok()
    }

    /// Has them be there, every file in its length, and says where: where they were, or else in the first
    /// base that will do. Blocks for file operations.
    ///
    /// # Errors
    ///
    /// If no base can be written to.
    pub fn stand(&self) -> Result<PathBuf, StageError> {
        let mut folder = self.place();
        let files = files(&self.hermes_tools);
        // They were compared at the start of this manager; to read them again would cost a millisecond.
        if is_complete(&folder, &files) {
            return Ok(folder.clone());
        }
        if stage_in(&folder, &files).is_err() {
            folder.clone_from(&stage(&self.bases, &self.hermes_tools)?.folder);
        }
        tracing::warn!(folder = %folder.display(), "the Python half was gone and is there again");
        Ok(folder.clone())
    }

    fn place(&self) -> MutexGuard<'_, PathBuf> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unpacked sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Holds the package and, in `tools`, the shim alone.
    pub folder: PathBuf,
    /// Why the best place would not do, if another was taken.
    pub passed_over: Vec<String>,
}

/// Unpacks the sources into the first base that will do.
///
/// What is there already is compared, byte for byte, before it is used. What an unpacking that was
/// killed has left behind is removed. Blocks for file operations.
///
/// # Errors
///
/// If no base can be written to.
pub fn stage(bases: &[PathBuf], hermes_tools: &str) -> Result<Staged, StageError> {
    let files = files(hermes_tools);
    let name = content_hash(&files);
    let mut passed_over = Vec::new();
    for base in bases {
        sweep(base, is_staging, |path| fs::remove_dir_all(path));
    }
    for base in bases {
        match stage_in(&base.join(&name), &files) {
            Ok(folder) => {
                return Ok(Staged {
                    folder,
                    passed_over,
                });
            }
            Err(error) => {
                let limit = match error.kind() {
                    io::ErrorKind::FileTooLarge => ", the limit is that of ulimit -f",
                    _ => "",
                };
                passed_over.push(format!("{}: {error}{limit}", base.display()));
            }
        }
    }
    Err(StageError { tried: passed_over })
}

/// What stands in the folder, with the shim and its stubs.
fn files(hermes_tools: &str) -> Vec<(PathBuf, &str)> {
    let mut files: Vec<(PathBuf, &str)> = PACKAGE
        .iter()
        .map(|(name, text)| (Path::new("_warmcell").join(name), *text))
        .collect();
    files.push((PathBuf::from("tools/hermes_tools.py"), hermes_tools));
    files.push((PathBuf::from(BOOT_FILE), BOOT));
    files
}

fn content_hash(files: &[(PathBuf, &str)]) -> String {
    let mut hash = Sha256::new();
    for (path, text) in files {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let bytes = hash.finalize();
    let (head, _) = bytes.split_first_chunk().unwrap_or((&[0; 8], &[]));
    format!("{:016x}", u64::from_be_bytes(*head))
}

fn stage_in(folder: &Path, files: &[(PathBuf, &str)]) -> io::Result<PathBuf> {
    if is_whole(folder, files) {
        return Ok(folder.to_owned());
    }
    let parent = folder.parent().unwrap_or(folder);
    private_folder(parent)?;
    // Held until it has its name: a sweep of another manager lets it be.
    let (staging, _claim) = Claim::make(|| parent.join(random_name(NEW)))?;
    let written = write_all(&staging, files).and_then(|()| {
        if folder.exists() && !is_whole(folder, files) {
            // Somebody has changed it. It is moved away, not mended in place: a forkserver may be
            // reading it.
            fs::rename(folder, parent.join(random_name(OLD)))?;
        }
        fs::rename(&staging, folder)
    });
    if written.is_err() {
        drop(fs::remove_dir_all(&staging));
    }
    // Another manager may have been first; what counts is what is there now.
    if is_whole(folder, files) {
        return Ok(folder.to_owned());
    }
    written.and(Err(io::Error::other(
        "what was written is not what is there",
    )))
}

fn random_name(prefix: &str) -> String {
    [prefix, &random_hex(RANDOM_BYTES)].concat()
}

/// Whether a name is that of a folder that is being unpacked, or was moved away.
fn is_staging(name: &OsStr) -> bool {
    [NEW, OLD]
        .iter()
        .any(|prefix| is_random_name(name, prefix, RANDOM_BYTES))
}

fn write_all(staging: &Path, files: &[(PathBuf, &str)]) -> io::Result<()> {
    for (path, text) in files {
        let path = staging.join(path);
        private_folder(path.parent().unwrap_or(staging))?;
        fs::File::create_new(path)?.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Whether no file is missing or cut.
fn is_complete(folder: &Path, files: &[(PathBuf, &str)]) -> bool {
    let has_length = |path: &Path, bytes: usize| {
        fs::metadata(folder.join(path)).is_ok_and(|found| found.len() == bytes as u64)
    };
    is_private(folder).is_ok()
        && files
            .iter()
            .all(|(path, text)| has_length(path, text.len()))
}

fn is_whole(folder: &Path, files: &[(PathBuf, &str)]) -> bool {
    is_private(folder).is_ok()
        && files
            .iter()
            .all(|(path, text)| fs::read(folder.join(path)).is_ok_and(|it| it == text.as_bytes()))
}

#[cfg(test)]
#[path = "python_source_tests.rs"]
mod tests;
