//! Where Jupyter looks for kernelspecs, and where they are installed.

use std::path::{Path, PathBuf};

use super::interpreter::on_path;
use super::ladder::candidates;
use crate::config::Caller;

/// Folders that are looked into at most.
const MOST_FOLDERS: usize = 64;
const SYSTEM: [&str; 2] = ["/usr/local/share/jupyter", "/usr/share/jupyter"];

/// The folders in which kernelspecs are looked for, best first: `JUPYTER_PATH`, the user's, that of
/// the Python environment, the system's; the environment's before the user's in an active
/// environment or with `JUPYTER_PREFER_ENV_PATH`, as Jupyter does.
///
/// Looks at the file system (a few blocking calls), runs nothing.
pub fn kernelspec_folders(caller: &Caller) -> Vec<PathBuf> {
    let mut bases: Vec<PathBuf> = Vec::new();
    if let Some(path) = set(caller, "JUPYTER_PATH") {
        bases.extend(std::env::split_paths(path).filter(|it| !it.as_os_str().is_empty()));
    }
    let mut user = Vec::new();
    user.extend(user_data(caller));
    user.extend(user_base(caller).map(|base| base.join("share/jupyter")));
    let environment: Vec<PathBuf> = environment_prefixes(caller)
        .into_iter()
        .map(|prefix| prefix.join("share/jupyter"))
        .filter(|path| !SYSTEM.iter().any(|system| path == Path::new(system)))
        .collect();
    let (first, second) = if prefers_environment(caller) {
        (environment, user)
    } else {
        (user, environment)
    };
    bases.extend(first);
    bases.extend(second);
    bases.extend(SYSTEM.iter().map(PathBuf::from));
    let mut folders: Vec<PathBuf> = Vec::new();
    // IPython's own, of old.
    let ipython = set(caller, "IPYTHONDIR")
        .map(PathBuf::from)
        .or_else(|| Some(home(caller)?.join(".ipython")));
    for folder in bases.into_iter().chain(ipython) {
        let folder = caller.cwd.join(folder).join("kernels");
        if !folders.contains(&folder) && folders.len() < MOST_FOLDERS {
            folders.push(folder);
        }
    }
    folders
}

/// The user's folder of Jupyter: `JUPYTER_DATA_DIR`, else in `XDG_DATA_HOME` or `~/.local/share`.
/// `None` without a home.
pub fn user_data(caller: &Caller) -> Option<PathBuf> {
    if let Some(folder) = set(caller, "JUPYTER_DATA_DIR") {
        return Some(caller.cwd.join(folder));
    }
    let data = match set(caller, "XDG_DATA_HOME") {
        Some(folder) => caller.cwd.join(folder),
        None => home(caller)?.join(".local/share"),
    };
    Some(data.join("jupyter"))
}

/// The prefixes of Python environments: that of `VIRTUAL_ENV` or `CONDA_PREFIX`, or of the Python that is
/// named; that of the `jupyter` on PATH, which looks in its own; if there is none of these, where the
/// Python on PATH stands.
fn environment_prefixes(caller: &Caller) -> Vec<PathBuf> {
    let own = || prefix_of(&candidates(caller).into_iter().next()?.path);
    let first = match active_environment(caller) {
        Some(active) if caller.python.is_none() => Some(active.prefix),
        _ if caller.python.is_some() => own(),
        _ => None,
    };
    let mut prefixes: Vec<PathBuf> = first.into_iter().chain(jupyter_prefix(caller)).collect();
    if prefixes.is_empty() {
        prefixes.extend(own());
    }
    prefixes
}

/// The environment in which a program stands: in `PREFIX/bin`. A link is not followed: a virtual
/// environment has one.
fn prefix_of(program: &Path) -> Option<PathBuf> {
    let bin = program.parent()?;
    (bin.file_name()? == "bin").then(|| bin.parent().map(Path::to_owned))?
}

/// The environment of the first `jupyter` on PATH. It is a script, and names its Python where it really
/// is: one that is a link belongs to the environment to which that leads.
fn jupyter_prefix(caller: &Caller) -> Option<PathBuf> {
    let jupyter = on_path(caller, Path::new("jupyter"))?;
    if jupyter.is_symlink() {
        return prefix_of(&jupyter.canonicalize().ok()?);
    }
    prefix_of(&jupyter)
}

/// A Python environment that is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEnvironment {
    /// Its folder; it need not be there.
    pub prefix: PathBuf,
    /// The variable that says so.
    pub variable: &'static str,
}

/// The environment that is active: that of `VIRTUAL_ENV`, else of `CONDA_PREFIX`.
pub fn active_environment(caller: &Caller) -> Option<ActiveEnvironment> {
    let mut variables = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter();
    variables.find_map(|variable| {
        let prefix = caller.cwd.join(set(caller, variable)?);
        Some(ActiveEnvironment { prefix, variable })
    })
}

/// Whether an environment was made active on purpose: conda's own base is active by itself.
pub(super) fn in_environment(caller: &Caller) -> bool {
    let in_base = caller.variable("CONDA_DEFAULT_ENV") == Some("base");
    set(caller, "VIRTUAL_ENV").is_some() || (set(caller, "CONDA_PREFIX").is_some() && !in_base)
}

fn prefers_environment(caller: &Caller) -> bool {
    if let Some(value) = set(caller, "JUPYTER_PREFER_ENV_PATH") {
        let no = ["no", "n", "false", "off", "0", "0.0"];
        return !no.iter().any(|no| value.eq_ignore_ascii_case(no));
    }
    // As Jupyter does in a virtual environment, also in one that nothing but its PATH says.
    let is_virtual = |prefix: PathBuf| prefix.join("pyvenv.cfg").is_file();
    in_environment(caller)
        || (active_environment(caller).is_none() && jupyter_prefix(caller).is_some_and(is_virtual))
}

fn user_base(caller: &Caller) -> Option<PathBuf> {
    set(caller, "PYTHONUSERBASE")
        .map(PathBuf::from)
        .or_else(|| Some(home(caller)?.join(".local")))
}

fn home(caller: &Caller) -> Option<PathBuf> {
    set(caller, "HOME").map(|home| caller.cwd.join(home))
}

fn set<'a>(caller: &'a Caller, name: &str) -> Option<&'a str> {
    caller.variable(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(variables: &[(&str, &str)]) -> Vec<String> {
        let caller = Caller {
            environment: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            cwd: PathBuf::from("/here"),
            umask: 0o022,
            limits: None,
            python: None,
            kernel: None,
            mode: None,
            named: Vec::new(),
        };
        let shown = |path: PathBuf| {
            let path = path.display().to_string();
            path.strip_suffix("/kernels").unwrap().to_owned()
        };
        kernelspec_folders(&caller).into_iter().map(shown).collect()
    }

    const REST: [&str; 2] = ["/usr/local/share/jupyter", "/usr/share/jupyter"];

    #[test]
    fn the_order_is_jupyters() {
        assert_eq!(folders(&[]), REST);
        let home = ("HOME", "/h");
        let user = "/h/.local/share/jupyter";
        assert_eq!(folders(&[home]), [user, REST[0], REST[1], "/h/.ipython"]);
        let venv = ("VIRTUAL_ENV", "/v");
        let path = ("JUPYTER_PATH", "/a:relative:/a:");
        assert_eq!(
            folders(&[home, venv, path]),
            [
                "/a",
                "/here/relative",
                "/v/share/jupyter",
                user,
                REST[0],
                REST[1],
                "/h/.ipython"
            ]
        );
        let user_first = ("JUPYTER_PREFER_ENV_PATH", "0");
        let found = folders(&[home, venv, user_first]);
        assert_eq!(found[..2], [user, "/v/share/jupyter"]);
        let conda = ("CONDA_PREFIX", "/c");
        assert_eq!(folders(&[home, conda])[0], "/c/share/jupyter");
        let base = ("CONDA_DEFAULT_ENV", "base");
        assert_eq!(folders(&[home, conda, base])[0], user);
    }

    #[test]
    fn the_users_folder_can_be_named() {
        let home = ("HOME", "/h");
        let xdg = ("XDG_DATA_HOME", "/x");
        let found = folders(&[home, xdg]);
        assert_eq!(found[..2], ["/x/jupyter", "/h/.local/share/jupyter"]);
        let data = ("JUPYTER_DATA_DIR", "/d");
        assert_eq!(folders(&[home, xdg, data])[0], "/d");
    }

    #[test]
    fn there_are_not_more_folders_than_can_be_looked_into() {
        let many: Vec<String> = (0..1000).map(|it| format!("/{it}")).collect();
        let found = folders(&[("JUPYTER_PATH", &many.join(":"))]);
        assert_eq!(found.len(), MOST_FOLDERS);
    }
}
