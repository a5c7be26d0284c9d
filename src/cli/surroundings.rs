//! What this process was started with: the only place that reads environment, home and directory.

use std::env;
use std::fs;
use std::path::PathBuf;

use super::args::ExecArguments;
use crate::config::{Caller, Settings};

/// The settings that the environment gives.
pub(super) fn settings() -> Settings {
    let path = |name: &str| {
        env::var_os(name)
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
    };
    let temp_dir = path("TMPDIR");
    let home = path("HERMES_HOME")
        .or_else(|| path("HOME").map(|home| home.join(".hermes")))
        // A user without a home has no place but a temporary one.
        .unwrap_or_else(|| env::temp_dir().join(".hermes"));
    Settings {
        runtime_dir: path("XDG_RUNTIME_DIR"),
        temp_dir,
        adopt_orphans: true,
        ..Settings::new(env::current_dir().map_or(home.clone(), |cwd| cwd.join(&home)))
    }
}

/// Who asks for kernels: this process.
///
/// Variables that are not UTF-8 are left out; they could not pass in any case.
pub(super) fn caller(arguments: &ExecArguments) -> Result<Caller, String> {
    let here = env::current_dir()
        .map_err(|error| format!("the current directory cannot be used ({error}); give --cwd"));
    let cwd = match &arguments.cwd {
        Some(cwd) if cwd.is_absolute() => cwd.clone(),
        Some(cwd) => here?.join(cwd),
        None => here?,
    };
    let environment = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Ok(Caller {
        environment,
        cwd,
        umask: umask(),
        python: arguments.python.clone(),
    })
}

/// The file mode creation mask, which can otherwise only be asked for by changing it.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .unwrap_or(0o022)
}
