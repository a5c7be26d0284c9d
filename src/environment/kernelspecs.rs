//! The kernelspecs that are installed: which there are, and what is wrong with the others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::kernelspec_install::OURS;
use super::kernelspec_paths::kernelspec_folders;
use super::kernelspec_programs::missing;
use super::kernelspec_start::started_as;
use crate::config::{Caller, ForeignKernel};
use crate::jupyter::{Kernelspec, KernelspecError, MOST_KERNELSPEC_BYTES, kernelspec_name};

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1_000;
/// Sentences about what is wrong.
const MOST_PROBLEMS: usize = 100;
/// The file in a kernelspec's folder.
pub(super) const KERNEL_JSON: &str = "kernel.json";

/// All kernelspecs of a caller.
#[derive(Debug, Default)]
pub struct Kernelspecs {
    /// By name, in lower case.
    pub found: BTreeMap<String, InstalledKernelspec>,
    /// What is wrong with those that cannot be used, a sentence each that names the file. Those whose
    /// program is missing are `found` all the same: front ends offer them.
    pub problems: Vec<String>,
}

/// A kernelspec and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledKernelspec {
    /// The folder that holds `kernel.json`, logos and the like.
    pub folder: PathBuf,
    /// What `kernel.json` says.
    pub spec: Kernelspec,
    /// Why no kernel of it can start, as far as that can be seen: a program that is missing.
    pub problem: Option<String>,
}

/// A kernel that is not ours, as it was asked for by name.
///
/// Reads files (blocking).
///
/// # Errors
///
/// If there is no such kernelspec, or it cannot be used; the sentence says which there are, and where
/// was looked.
pub fn foreign_kernel(name: &str, caller: &Caller) -> Result<ForeignKernel, UnknownKernel> {
    let specs = kernelspecs(caller);
    let (wanted, found) = specs.named(name, caller)?;
    if found.is_ours() {
        let reason = "its kernels are Warmcell's own".to_owned();
        return Err(specs.unknown(name, caller, reason));
    }
    specs.kernel(&wanted, found, caller)
}

/// Any kernel that is installed, ours too, as it was asked for by name.
///
/// Reads files (blocking).
///
/// # Errors
///
/// As [`foreign_kernel`].
pub fn installed_kernel(name: &str, caller: &Caller) -> Result<ForeignKernel, UnknownKernel> {
    let specs = kernelspecs(caller);
    let (wanted, found) = specs.named(name, caller)?;
    specs.kernel(&wanted, found, caller)
}

/// The kernel of a kernelspec that need not be installed: of a `kernel.json`, or of the folder that holds
/// one.
///
/// Reads a file (blocking).
///
/// # Errors
///
/// If there is none, or it cannot be used; the sentence names the file.
pub fn kernel_at(path: &Path) -> Result<ForeignKernel, UnusableKernelspec> {
    let is_folder = fs::metadata(path).is_ok_and(|found| found.is_dir());
    let file = if is_folder {
        path.join(KERNEL_JSON)
    } else {
        path.to_owned()
    };
    let unusable = |reason: String| UnusableKernelspec {
        file: file.clone(),
        reason,
    };
    // Asked first: the opening of a pipe would wait for somebody to write.
    match fs::metadata(&file) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(unusable("it is no file".to_owned())),
        Err(error) => return Err(unusable(error.to_string())),
    }
    let spec = read(&file).map_err(|error| unusable(error.to_string()))?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = kernelspec_name(&name).unwrap_or_else(|_odd| "kernel".to_owned());
    let found = InstalledKernelspec {
        folder,
        spec,
        problem: None,
    };
    started_as(name, found, None).map_err(unusable)
}

/// A kernelspec's file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", file.display())]
pub struct UnusableKernelspec {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// The names of those that can be used.
fn usable(specs: &Kernelspecs) -> Vec<String> {
    let usable = specs.found.iter().filter(|(_, it)| it.problem.is_none());
    usable.map(|(name, _)| name.clone()).collect()
}

/// A kernel that was asked for by name and cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no kernel {name:?} to be used: {reason}; {}", self.advice())]
pub struct UnknownKernel {
    /// The name, shortened.
    pub name: String,
    /// Why it cannot be had.
    pub reason: String,
    /// The kernels that are there.
    pub known: Vec<String>,
    /// The folders that were looked into.
    pub folders: Vec<PathBuf>,
}

impl UnknownKernel {
    fn advice(&self) -> String {
        let folders: Vec<String> = self
            .folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let known = match &self.known[..] {
            [] => "no kernelspec that can be used is installed".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        format!("{known} (looked for in {})", folders.join(", "))
    }
}

impl InstalledKernelspec {
    /// Whether its kernels are ours, over ZeroMQ.
    pub fn is_ours(&self) -> bool {
        self.spec.metadata.contains_key(OURS)
    }
}

/// Why a kernelspec's file cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("{0}")]
    Spec(#[from] KernelspecError),
}

/// Looks for kernelspecs in all of Jupyter's folders. Of those with one name that of the first
/// folder counts, also if it cannot be used: so does Jupyter. What cannot be used costs nothing but a
/// sentence.
///
/// Reads files (blocking), of at most 1 MiB each; runs nothing.
pub fn kernelspecs(caller: &Caller) -> Kernelspecs {
    let mut specs = Kernelspecs::default();
    let mut taken = Vec::new();
    for folder in kernelspec_folders(caller) {
        specs.look_into(&folder, &mut taken);
    }
    let mut problems = Vec::new();
    for found in specs.found.values_mut() {
        found.problem = missing(found, caller);
        problems.extend(
            found
                .problem
                .as_ref()
                .map(|it| (found.folder.clone(), it.clone())),
        );
    }
    for (folder, problem) in problems {
        specs.problem(&folder.join(KERNEL_JSON), &problem);
    }
    specs
}

impl Kernelspecs {
    /// A kernel of one of them.
    fn kernel(
        &self,
        name: &str,
        found: InstalledKernelspec,
        caller: &Caller,
    ) -> Result<ForeignKernel, UnknownKernel> {
        let file = found.folder.join(KERNEL_JSON);
        started_as(name.to_owned(), found, Some(caller))
            .map_err(|what| self.unknown(name, caller, format!("{}: {what}", file.display())))
    }

    /// The one of that name, and the name as names are compared.
    fn named(
        &self,
        name: &str,
        caller: &Caller,
    ) -> Result<(String, InstalledKernelspec), UnknownKernel> {
        let wanted =
            kernelspec_name(name).map_err(|error| self.unknown(name, caller, error.to_string()))?;
        if let Some(found) = self.found.get(&wanted) {
            return Ok((wanted, found.clone()));
        }
        // Of one that cannot be used it is said why.
        let of_that_name = |problem: &&String| {
            problem
                .to_ascii_lowercase()
                .contains(&format!("/{wanted}/{KERNEL_JSON}: "))
        };
        let reason = self.problems.iter().find(of_that_name);
        let reason = reason.map_or_else(|| "it is not installed".to_owned(), Clone::clone);
        Err(self.unknown(name, caller, reason))
    }

    fn unknown(&self, name: &str, caller: &Caller, reason: String) -> UnknownKernel {
        UnknownKernel {
            name: name.chars().take(64).collect(),
            reason,
            known: usable(self),
            folders: kernelspec_folders(caller),
        }
    }

    fn look_into(&mut self, folder: &Path, taken: &mut Vec<String>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                // Most of the folders are not there.
                let usual = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
                if !usual.contains(&error.kind()) {
                    self.problem(folder, &error.to_string());
                }
                return;
            }
        };
        let mut folders: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .take(MOST_ENTRIES + 1)
            .collect();
        if folders.len() > MOST_ENTRIES {
            self.problem(
                folder,
                "it has more than 1000 entries; the rest was not looked at",
            );
            folders.truncate(MOST_ENTRIES);
        }
        // Two names that differ in case only: which of them counts is not to hang on the file system.
        folders.sort();
        for folder in folders {
            let file = folder.join(KERNEL_JSON);
            // Only what has a file of this name is meant as one.
            if !fs::metadata(&file).is_ok_and(|found| found.is_file()) {
                continue;
            }
            self.enter(folder, &file, taken);
        }
    }

    fn enter(&mut self, folder: PathBuf, file: &Path, taken: &mut Vec<String>) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = match kernelspec_name(&name) {
            Ok(name) => name,
            Err(error) => return self.problem(&folder, &error.to_string()),
        };
        if taken.contains(&name) {
            return;
        }
        taken.push(name.clone());
        match read(file) {
            Ok(mut spec) => {
                if spec.display_name.is_empty() {
                    spec.display_name.clone_from(&name);
                }
                let problem = None;
                let installed = InstalledKernelspec {
                    folder,
                    spec,
                    problem,
                };
                self.found.insert(name, installed);
            }
            Err(error) => self.problem(file, &error.to_string()),
        }
    }

    fn problem(&mut self, path: &Path, what: &str) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(format!("{}: {what}", path.display()));
        }
    }
}

fn read(file: &Path) -> Result<Kernelspec, Unusable> {
    let most = u64::try_from(MOST_KERNELSPEC_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    // One byte more says that it is too long.
    File::open(file)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Kernelspec::parse(&bytes)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn caller(path: &[&Path]) -> Caller {
        let joined = std::env::join_paths(path).unwrap();
        Caller {
            environment: vec![("JUPYTER_PATH".to_owned(), joined.into_string().unwrap())],
            cwd: PathBuf::from("/"),
            umask: 0o022,
            limits: None,
            python: None,
            kernel: None,
            mode: None,
            named: Vec::new(),
        }
    }

    #[test]
    fn a_kernelspec_is_taken_by_its_folder_or_file_and_told_by_file_if_it_is_broken() {
        let temp = tempfile::tempdir().unwrap();
        let folder = install(
            temp.path(),
            "Mine",
            r#"{"argv":["a","{connection_file}"],"language":"x"}"#,
        );
        let kernel = kernel_at(&folder).unwrap();
        assert_eq!(
            (kernel.name.as_str(), kernel.language.as_str()),
            ("mine", "x")
        );
        assert_eq!(kernel_at(&folder.join(KERNEL_JSON)), Ok(kernel));
        let broken = install(temp.path(), "broken", "{");
        let pipe = temp.path().join("kernels/pipe/kernel.json");
        fs::create_dir_all(&pipe).unwrap();
        for (path, sentence) in [
            (broken, "broken/kernel.json: kernel.json is no JSON object"),
            (temp.path().join("none"), "none: No such file"),
            (
                pipe.parent().unwrap().to_owned(),
                "pipe/kernel.json: it is no file",
            ),
        ] {
            let error = kernel_at(&path).unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }

    fn install(base: &Path, name: &str, text: &str) -> PathBuf {
        let folder = base.join("kernels").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(KERNEL_JSON), text).unwrap();
        folder
    }

    #[test]
    fn the_first_of_a_name_counts_and_broken_ones_are_told() {
        let temp = tempfile::tempdir().unwrap();
        let (a, b) = (temp.path().join("a"), temp.path().join("b"));
        let first = install(&a, "Py", r#"{"argv":["first"]}"#);
        install(&b, "py", r#"{"argv":["second"]}"#);
        install(&a, "broken", "{");
        // Hidden by the broken one, as with Jupyter.
        install(&b, "broken", r#"{"argv":["x"]}"#);
        install(&b, "bad name", r#"{"argv":["x"]}"#);
        install(&b, "empty", r#"{"argv":[]}"#);
        install(&b, "long", &" ".repeat(MOST_KERNELSPEC_BYTES + 1));
        fs::create_dir_all(b.join("kernels/nothing")).unwrap();
        fs::create_dir_all(b.join("kernels/folder/kernel.json")).unwrap();
        fs::write(b.join("kernels/file"), "").unwrap();
        symlink("/nowhere", b.join("kernels/link")).unwrap();
        symlink(&first, b.join("kernels/linked")).unwrap();

        let missing = temp.path().join("missing");
        let found = kernelspecs(&caller(&[&missing, &a, &b]));
        let mine: Vec<(&str, &str)> = found
            .found
            .iter()
            .filter(|(_, it)| it.folder.starts_with(temp.path()))
            .map(|(name, it)| (name.as_str(), it.spec.argv[0].as_str()))
            .collect();
        assert_eq!(mine, [("linked", "first"), ("py", "first")]);
        assert_eq!(found.found["py"].spec.display_name, "py");
        assert_eq!(found.found["py"].folder, first);
        let told = |what: &str| {
            let hits = found.problems.iter().filter(|it| it.contains(what));
            hits.count()
        };
        for (what, times) in [
            (
                "a/kernels/broken/kernel.json: kernel.json is no JSON object",
                1,
            ),
            ("b/kernels/broken", 0),
            ("no name of a kernelspec", 1),
            ("argv is a list", 1),
            ("more than 1048576 are not read", 1),
        ] {
            assert_eq!(told(what), times, "{what}: {:?}", found.problems);
        }
    }

    #[test]
    fn a_folder_with_too_much_in_it_is_not_read_to_its_end() {
        let temp = tempfile::tempdir().unwrap();
        let kernels = temp.path().join("kernels");
        fs::create_dir_all(&kernels).unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::write(kernels.join(number.to_string()), "").unwrap();
        }
        let found = kernelspecs(&caller(&[temp.path()]));
        assert!(
            found
                .problems
                .iter()
                .any(|it| it.contains("more than 1000")),
            "{:?}",
            found.problems
        );
    }
}
