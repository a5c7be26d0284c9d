//! Installs our kernelspec, so that Jupyter's front ends offer it.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::NamedTempFile;

use super::credentials::is_provider_credential;
use super::kernelspecs::KERNEL_JSON;
use crate::jupyter::{InterruptMode, Kernelspec, KernelspecError, kernelspec_name};

/// By which our own kernelspecs are known again.
pub(super) const OURS: &str = "warmcell";
/// The option of our kernels that names their Python.
pub(super) const PYTHON_OPTION: &str = "--python";
/// What a front end puts the folder of the kernelspec in the place of.
const RESOURCE_DIR: &str = "{resource_dir}";

/// A kernelspec of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnKernelspec {
    /// The name by which kernels are asked for.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// The program, an absolute path.
    pub warmcell: PathBuf,
    /// The Python of its kernels; that of the front end where none is named.
    pub python: Option<PathBuf>,
    /// Whether cells show secrets as they are (`warmcell kernel --no-redact`).
    pub shows_secrets: bool,
}

/// Why a kernelspec was not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The name will not do.
    #[error(transparent)]
    Name(#[from] KernelspecError),
    /// The name for people is none.
    #[error(
        "{display_name:?} is no name that a front end can show; give --display-name a text without \
         control characters"
    )]
    DisplayName {
        /// What was given.
        display_name: String,
    },
    /// One is there whose name differs in case only: for Jupyter that is the same name.
    #[error(
        "{path} is there, and names count without case: a kernelspec {name} would be the same one; \
         use --name {existing}, or remove that with `warmcell kernelspec remove {existing}`"
    )]
    OtherCase {
        /// The folder that is there.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// As it is written there.
        existing: String,
    },
    /// A path cannot stand in a JSON file.
    #[error("{path:?} is not UTF-8, so no kernel.json can name it; move it, or link to it")]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// Something else has the name.
    #[error("{path} is not ours ({what}); choose another name with --name, or remove it")]
    Taken {
        /// What is there.
        path: PathBuf,
        /// Why it is not ours.
        what: &'static str,
    },
    /// It cannot be written.
    #[error(
        "{path} cannot be written ({source}); choose a place that you may write to with --prefix DIR"
    )]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A kernelspec in this folder whose name differs from this one in case only.
fn other_case(kernels: &Path, name: &str) -> Option<String> {
    if kernels.join(name).exists() {
        return None;
    }
    let found = fs::read_dir(kernels).ok()?.flatten();
    let mut names = found.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|it| {
        it != name && it.eq_ignore_ascii_case(name) && kernels.join(it).join(KERNEL_JSON).exists()
    })
}

impl OwnKernelspec {
    /// What its `kernel.json` says.
    ///
    /// # Errors
    ///
    /// If a path is not UTF-8.
    pub fn spec(&self) -> Result<Kernelspec, InstallError> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| InstallError::Path {
                path: path.to_owned(),
            })
        };
        let mut argv = vec![
            text(&self.warmcell)?,
            "kernel".to_owned(),
            "-f".to_owned(),
            "{connection_file}".to_owned(),
            "--kernelspec".to_owned(),
            RESOURCE_DIR.to_owned(),
        ];
        if let Some(python) = &self.python {
            argv.push(PYTHON_OPTION.to_owned());
            argv.push(text(python)?);
        }
        if self.shows_secrets {
            argv.push("--no-redact".to_owned());
        }
        let mut metadata = serde_json::Map::new();
        metadata.insert(
            OURS.to_owned(),
            json!({ "version": env!("CARGO_PKG_VERSION") }),
        );
        Ok(Kernelspec {
            argv,
            env: std::collections::BTreeMap::new(),
            display_name: self.display_name.clone(),
            language: "python".to_owned(),
            interrupt_mode: InterruptMode::Message,
            metadata,
        })
    }

    /// Writes it below a folder of Jupyter's (`.../share/jupyter`); the folder that holds it then. At
    /// once or not at all; one that is there already is replaced if it is ours.
    ///
    /// Blocking.
    ///
    /// # Errors
    ///
    /// If the name will not do, something else has it, or it cannot be written.
    pub fn install(&self, data: &Path) -> Result<PathBuf, InstallError> {
        kernelspec_name(&self.name)?;
        if self.display_name.trim().is_empty() || self.display_name.chars().any(char::is_control) {
            return Err(InstallError::DisplayName {
                display_name: self.display_name.clone(),
            });
        }
        let kernels = data.join("kernels");
        if let Some(existing) = other_case(&kernels, &self.name) {
            return Err(InstallError::OtherCase {
                path: kernels.join(&existing),
                name: self.name.clone(),
                existing,
            });
        }
        let text = self.spec()?.to_json();
        let folder = data.join("kernels").join(&self.name);
        let file = folder.join(KERNEL_JSON);
        is_ours(&folder, &file)?;
        let write = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&folder)?;
            let mut staged = NamedTempFile::with_prefix_in(".kernel-", &folder)?;
            staged.write_all(text.as_bytes())?;
            // Others may have the right to start kernels of a system-wide one.
            staged
                .as_file()
                .set_permissions(Permissions::from_mode(0o644))?;
            staged.persist(&file).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|source| InstallError::Write {
            path: file.clone(),
            source,
        })?;
        Ok(folder)
    }
}

/// Accepts a place that is free, or holds one of ours.
fn is_ours(folder: &Path, file: &Path) -> Result<(), InstallError> {
    let taken = |path: &Path, what| {
        Err(InstallError::Taken {
            path: path.to_owned(),
            what,
        })
    };
    match fs::symlink_metadata(folder) {
        Err(_missing) => return Ok(()),
        Ok(found) if found.is_dir() => {}
        Ok(_) => return taken(folder, "it is a link or a file"),
    }
    match fs::symlink_metadata(file) {
        Err(_missing) if fs::read_dir(folder).is_ok_and(|mut it| it.next().is_none()) => Ok(()),
        Err(_missing) => taken(folder, "it holds other files and no kernel.json"),
        Ok(found) if !found.is_file() => taken(file, "it is no file"),
        Ok(_) if is_ours_in(folder) => Ok(()),
        Ok(_) => taken(file, "another program has written it"),
    }
}

/// Whether a folder holds a kernelspec of ours.
pub(super) fn is_ours_in(folder: &Path) -> bool {
    read(folder).is_some_and(|spec| spec.metadata.contains_key(OURS))
}

fn read(folder: &Path) -> Option<Kernelspec> {
    let bytes = fs::read(folder.join(KERNEL_JSON)).ok()?;
    Kernelspec::parse(&bytes).ok()
}

/// The variables that the kernelspec in this folder sets for its kernels, by name. They are set on
/// purpose, so they pass; but never those that are the agent's own credentials. None where no front
/// end has put a folder in the place, or there is no kernelspec in it.
///
/// Reads a file (blocking).
pub fn own_variables(folder: &Path) -> Vec<String> {
    let env = read(folder).map(|spec| spec.env).unwrap_or_default();
    let names = env.into_keys();
    names.filter(|name| !is_provider_credential(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn own(name: &str) -> OwnKernelspec {
        OwnKernelspec {
            name: name.to_owned(),
            display_name: "Python (Warmcell)".to_owned(),
            warmcell: PathBuf::from("/opt/é/warmcell"),
            python: None,
            shows_secrets: false,
        }
    }

    #[test]
    fn it_is_written_at_once_and_written_again() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path().join("share/jupyter");
        let folder = own("warmcell").install(&data).unwrap();
        assert_eq!(folder, data.join("kernels/warmcell"));
        let read = || Kernelspec::parse(&fs::read(folder.join(KERNEL_JSON)).unwrap()).unwrap();
        let words = ["/opt/é/warmcell", "kernel", "-f", "{connection_file}"];
        assert_eq!(read().argv[..4], words);
        assert_eq!(read().argv[4..], ["--kernelspec", "{resource_dir}"]);
        assert_eq!(read().interrupt_mode, InterruptMode::Message);
        let again = OwnKernelspec {
            python: Some(PathBuf::from("/p/python")),
            shows_secrets: true,
            ..own("warmcell")
        };
        again.install(&data).unwrap();
        assert_eq!(read().argv[6..], ["--python", "/p/python", "--no-redact"]);
        let mode = fs::metadata(folder.join(KERNEL_JSON))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[test]
    fn what_a_kernelspec_sets_passes_but_for_credentials_of_providers() {
        let temp = tempfile::tempdir().unwrap();
        let folder = own("warmcell").install(temp.path()).unwrap();
        assert_eq!(own_variables(&folder), [""; 0]);
        let env = r#"{"argv":["x"],"env":{"MY_TOKEN":"a","OPENAI_API_KEY":"b","FOO":"$HOME"}}"#;
        fs::write(folder.join(KERNEL_JSON), env).unwrap();
        assert_eq!(own_variables(&folder), ["FOO", "MY_TOKEN"]);
        assert_eq!(own_variables(Path::new(RESOURCE_DIR)), [""; 0]);
    }

    #[test]
    fn what_is_not_ours_is_left_as_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let kernels = temp.path().join("kernels");
        let foreign = r#"{"argv":["python","-m","ipykernel"]}"#;
        fs::create_dir_all(kernels.join("python3")).unwrap();
        fs::write(kernels.join("python3/kernel.json"), foreign).unwrap();
        fs::create_dir_all(kernels.join("other")).unwrap();
        fs::write(kernels.join("other/notes"), "").unwrap();
        fs::write(kernels.join("file"), "").unwrap();
        symlink(kernels.join("python3"), kernels.join("link")).unwrap();
        for name in ["python3", "other", "file", "link"] {
            let error = own(name).install(temp.path()).unwrap_err();
            assert!(matches!(error, InstallError::Taken { .. }), "{error}");
            assert!(error.to_string().contains("--name"), "{error}");
        }
        let kept = fs::read_to_string(kernels.join("python3/kernel.json")).unwrap();
        assert_eq!(kept, foreign);
        assert!(own("../x").install(temp.path()).is_err());
        let nowhere = own("x").install(Path::new("/proc/nowhere")).unwrap_err();
        assert!(nowhere.to_string().contains("--prefix"), "{nowhere}");
    }
}
