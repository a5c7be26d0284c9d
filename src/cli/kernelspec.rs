//! `warmcell kernelspec`: which kernels front ends of Jupyter offer, and ours among them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, json};

use super::args_kernel::{KernelspecArguments, KernelspecCommand, KernelspecInstall};
use super::list::clean;
use super::{exit, streams, surroundings};
use crate::environment::{
    InstallError, Kernelspecs, OwnKernelspec, environment_prefix, kernelspecs, user_data,
};

/// Runs the command; its exit code.
pub(super) fn main(arguments: &KernelspecArguments) -> ExitCode {
    match &arguments.command {
        KernelspecCommand::List(list) => {
            let caller = surroundings::any_caller();
            let printed = print(&kernelspecs(&caller), list.json);
            ExitCode::from(if printed.is_ok() {
                0
            } else {
                exit::STDOUT_CLOSED
            })
        }
        KernelspecCommand::Install(install) => match installed(install) {
            Ok(folder) => {
                let sentence = format!("kernelspec {} is in {}", install.name, folder.display());
                drop(writeln!(streams::stdout(), "{sentence}"));
                ExitCode::SUCCESS
            }
            Err((code, sentence)) => {
                drop(writeln!(io::stderr(), "warmcell: {sentence}"));
                ExitCode::from(code)
            }
        },
    }
}

fn print(specs: &Kernelspecs, in_json: bool) -> io::Result<()> {
    let mut stdout = streams::stdout();
    if in_json {
        let mut found = Map::new();
        for (name, it) in &specs.found {
            let entry = json!({ "resource_dir": it.folder.display().to_string(), "spec": it.spec });
            found.insert(name.clone(), entry);
        }
        let object = json!({ "kernelspecs": found, "problems": specs.problems });
        writeln!(stdout, "{object}")?;
        return stdout.flush();
    }
    if specs.found.is_empty() {
        writeln!(stdout, "No kernels available")?;
    } else {
        let width = specs.found.keys().map(String::len).max().unwrap_or(0);
        writeln!(stdout, "Available kernels:")?;
        for (name, it) in &specs.found {
            let folder = clean(&it.folder.display().to_string());
            writeln!(stdout, "  {name:<width$}    {folder}")?;
        }
    }
    for problem in &specs.problems {
        drop(writeln!(io::stderr(), "warmcell: {}", clean(problem)));
    }
    stdout.flush()
}

fn installed(install: &KernelspecInstall) -> Result<PathBuf, (u8, String)> {
    let usage = |sentence: String| (exit::USAGE, sentence);
    let mut caller = surroundings::any_caller();
    caller.python.clone_from(&install.python);
    let here = caller.cwd.clone();
    let data = if let Some(prefix) = &install.prefix {
        here.join(prefix).join("share/jupyter")
    } else if install.sys_prefix {
        let prefix = environment_prefix(&caller).ok_or_else(|| {
            usage("no Python environment is active; give --user or --prefix DIR".to_owned())
        })?;
        prefix.join("share/jupyter")
    } else {
        user_data(&caller).ok_or_else(|| usage("HOME is not set; give --prefix DIR".to_owned()))?
    };
    let warmcell = std::env::current_exe().map_err(|error| {
        (
            exit::UNAVAILABLE,
            format!("cannot find this program: {error}"),
        )
    })?;
    let own = OwnKernelspec {
        name: install.name.clone(),
        display_name: install.display_name.clone(),
        warmcell,
        python: install.python.as_deref().map(|it| absolute(&here, it)),
    };
    own.install(&data).map_err(|error| {
        let code = match &error {
            InstallError::Write { .. } => exit::UNAVAILABLE,
            _ => exit::USAGE,
        };
        (code, error.to_string())
    })
}

/// A path as it means the same from everywhere; the name of a program on PATH stays one.
fn absolute(here: &Path, python: &Path) -> PathBuf {
    if python.components().count() == 1 {
        python.to_owned()
    } else {
        here.join(python)
    }
}
