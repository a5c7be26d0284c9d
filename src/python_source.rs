//! The Python half: embedded in the binary, unpacked once per content into a cache folder.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::folders::private_folder;
use crate::ids::random_hex;

/// The package that forkserver and kernel are made of.
const PACKAGE: &[(&str, &str)] = &[
    ("__init__.py", include_str!("../python/__init__.py")),
    ("alarm.py", include_str!("../python/alarm.py")),
    ("awaiting.py", include_str!("../python/awaiting.py")),
    ("carry.py", include_str!("../python/carry.py")),
    ("cell.py", include_str!("../python/cell.py")),
    ("children.py", include_str!("../python/children.py")),
    ("compiling.py", include_str!("../python/compiling.py")),
    ("descriptors.py", include_str!("../python/descriptors.py")),
    ("failures.py", include_str!("../python/failures.py")),
    ("forkserver.py", include_str!("../python/forkserver.py")),
    ("frames.py", include_str!("../python/frames.py")),
    ("ground.py", include_str!("../python/ground.py")),
    ("hooks.py", include_str!("../python/hooks.py")),
    ("interrupt.py", include_str!("../python/interrupt.py")),
    ("job.py", include_str!("../python/job.py")),
    ("kernel.py", include_str!("../python/kernel.py")),
    ("link.py", include_str!("../python/link.py")),
    ("mending.py", include_str!("../python/mending.py")),
    ("names.py", include_str!("../python/names.py")),
    ("own.py", include_str!("../python/own.py")),
    (
        "platform_calls.py",
        include_str!("../python/platform_calls.py"),
    ),
    ("reports.py", include_str!("../python/reports.py")),
    ("reserve.py", include_str!("../python/reserve.py")),
    ("shadow.py", include_str!("../python/shadow.py")),
    ("signals.py", include_str!("../python/signals.py")),
    ("streams.py", include_str!("../python/streams.py")),
];

/// The shim that cells import; the stubs of the tools are added to it.
pub const HERMES_TOOLS: &str = include_str!("../python/hermes_tools.py");

/// The program that the interpreter is given, with the folder of the sockets as its argument: old
/// versions must be able to read it, to say that they are too old.
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
forkserver.main(bare, sys.argv[1], path, dict(theirs))
";

/// Where [`BOOT`] stands in the unpacked sources.
pub const BOOT_FILE: &str = "boot.py";

/// The exit code of [`BOOT`] in an interpreter that is too old.
pub const TOO_OLD: i32 = 64;

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
/// What is there already is compared, byte for byte, before it is used. Blocks for file operations.
///
/// # Errors
///
/// If no base can be written to.
pub fn stage(bases: &[PathBuf], hermes_tools: &str) -> Result<Staged, StageError> {
    let mut files: Vec<(PathBuf, &str)> = PACKAGE
        .iter()
        .map(|(name, text)| (Path::new("_warmcell").join(name), *text))
        .collect();
    files.push((PathBuf::from("tools/hermes_tools.py"), hermes_tools));
    files.push((PathBuf::from(BOOT_FILE), BOOT));
    let name = content_hash(&files);
    let mut passed_over = Vec::new();
    for base in bases {
        match stage_in(&base.join(&name), &files) {
            Ok(folder) => {
                return Ok(Staged {
                    folder,
                    passed_over,
                });
            }
            Err(error) => passed_over.push(format!("{}: {error}", base.display())),
        }
    }
    Err(StageError { tried: passed_over })
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
    let staging = parent.join(format!(".new-{}", random_hex(6)));
    let written = write_all(&staging, files).and_then(|()| {
        if folder.exists() {
            // Somebody has changed it. It is moved away, not mended in place: a forkserver may be
            // reading it.
            fs::rename(folder, parent.join(format!(".old-{}", random_hex(6))))?;
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

fn write_all(staging: &Path, files: &[(PathBuf, &str)]) -> io::Result<()> {
    for (path, text) in files {
        let path = staging.join(path);
        private_folder(path.parent().unwrap_or(staging))?;
        fs::File::create_new(path)?.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn is_whole(folder: &Path, files: &[(PathBuf, &str)]) -> bool {
    private_folder_is(folder)
        && files
            .iter()
            .all(|(path, text)| fs::read(folder.join(path)).is_ok_and(|it| it == text.as_bytes()))
}

/// Whether the folder is there and private, without making it.
fn private_folder_is(folder: &Path) -> bool {
    folder.is_dir() && private_folder(folder).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_unpacked_once_and_mended_when_it_was_changed() {
        let temp = tempfile::tempdir().unwrap();
        let bases = [temp.path().join("cache")];
        let first = stage(&bases, "tools").unwrap();
        let file = first.folder.join("_warmcell/kernel.py");
        assert!(fs::read_to_string(&file).unwrap().contains("def live"));
        assert_eq!(
            fs::read_to_string(first.folder.join("tools/hermes_tools.py")).unwrap(),
            "tools"
        );
        fs::write(&file, "changed").unwrap();
        let second = stage(&bases, "tools").unwrap();
        assert_eq!(first, second);
        assert!(fs::read_to_string(&file).unwrap().contains("def live"));
        let other = stage(&bases, "other tools").unwrap();
        assert_ne!(first.folder, other.folder);
    }

    #[test]
    fn a_base_that_cannot_be_written_is_passed_over_with_its_reason() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        let good = temp.path().join("good");
        let staged = stage(&[file.join("cache"), good.clone()], "tools").unwrap();
        assert!(staged.folder.starts_with(&good));
        assert_eq!(staged.passed_over.len(), 1);
        let error = stage(&[file.join("cache")], "tools").unwrap_err();
        assert!(
            error.to_string().contains("set HERMES_HOME or TMPDIR"),
            "{error}"
        );
    }

    #[test]
    fn every_python_file_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut there: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                Path::new(name).extension().is_some_and(|it| it == "py")
                    && name != "hermes_tools.py"
            })
            .collect();
        there.sort();
        let embedded: Vec<&str> = PACKAGE.iter().map(|(name, _)| *name).collect();
        assert_eq!(there, embedded);
    }
}
