//! `warmcell kernelspec`: which kernels front ends of Jupyter offer, and ours among them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, json};

use super::args_kernel::{
    KernelspecArguments, KernelspecCommand, KernelspecInstall, KernelspecRemove,
};
use super::kernelspec_place::{Place, Refused, try_out};
use super::list::clean;
use super::{exit, streams, surroundings};
use crate::config::Caller;
use crate::environment::{
    InstallError, Kernelspecs, OwnKernelspec, RemoveError, kernelspec_folders, kernelspecs,
    kernelspecs_named, remove_kernelspec,
};

/// Which Python kernels have whose kernelspec names none.
const NOT_FIXED: &str = "the Python of the environment that is active where a front end is started, else \
    the one in which the front end itself runs";

/// Runs the command; its exit code.
pub(super) fn main(arguments: &KernelspecArguments) -> ExitCode {
    let done = match &arguments.command {
        KernelspecCommand::List(list) => {
            let caller = surroundings::any_caller();
            let printed = print(&kernelspecs(&caller), list.json);
            return ExitCode::from(if printed.is_ok() {
                0
            } else {
                exit::STDOUT_CLOSED
            });
        }
        KernelspecCommand::Install(install) => installed(install),
        KernelspecCommand::Remove(remove) => removed(remove),
    };
    match done {
        Ok(sentence) => {
            drop(writeln!(streams::stdout(), "{}", clean(&sentence)));
            ExitCode::SUCCESS
        }
        Err((code, sentence)) => {
            say(&sentence);
            ExitCode::from(code)
        }
    }
}

fn say(sentence: &str) {
    // With stderr closed there is nobody to tell.
    drop(writeln!(io::stderr(), "warmcell: {}", clean(sentence)));
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
        say(problem);
    }
    stdout.flush()
}

/// Installs ours; what is told of it.
fn installed(install: &KernelspecInstall) -> Result<String, Refused> {
    let caller = surroundings::any_caller();
    let place = Place::of(&install.place, &caller)?;
    let named = install
        .python
        .as_deref()
        .map(|it| absolute(&caller.cwd, it));
    let python = named.or_else(|| place.python.clone());
    let runs = match &python {
        None => NOT_FIXED.to_owned(),
        Some(python) => {
            let tried = try_out(&caller, Some(python))?;
            format!("{} (Python {})", python.display(), tried.version)
        }
    };
    let warmcell = std::env::current_exe().map_err(|error| {
        let sentence = format!("cannot find this program: {error}");
        (exit::UNAVAILABLE, sentence)
    })?;
    let own = OwnKernelspec {
        name: install.name.clone(),
        display_name: install.display_name.clone(),
        warmcell,
        python,
        shows_secrets: install.no_redact,
    };
    let folder = own.install(&place.data).map_err(|error| {
        let code = match &error {
            InstallError::Write { .. } => exit::UNAVAILABLE,
            _ => exit::USAGE,
        };
        (code, error.to_string())
    })?;
    if let Some(sentence) = unseen(&own.name, &folder, &place.data, &caller) {
        say(&sentence);
    }
    let (name, folder) = (own.name, folder.display());
    Ok(format!(
        "kernelspec {name} is in {folder}; its kernels run {runs}"
    ))
}

/// Why front ends that are started from here do not get the one that was installed.
fn unseen(name: &str, folder: &Path, data: &Path, caller: &Caller) -> Option<String> {
    let folders = kernelspec_folders(caller);
    let first = kernelspecs_named(name, &folders).into_iter().next();
    let is_same = |one: &Path, other: &Path| {
        one == other
            || fs::canonicalize(one).is_ok_and(|it| Some(it) == fs::canonicalize(other).ok())
    };
    match first {
        Some(first) if is_same(&first, folder) => None,
        Some(first) if folders.iter().any(|it| is_same(it, &data.join("kernels"))) => {
            Some(format!(
                "front ends that are started from here find {} first under this name, and use that; choose \
             another --name, or another place",
                first.display()
            ))
        }
        _ => Some(format!(
            "front ends that are started from here do not look there; JUPYTER_PATH={} has them do so",
            data.display()
        )),
    }
}

/// Removes one of ours; what is told of it.
fn removed(remove: &KernelspecRemove) -> Result<String, Refused> {
    let caller = surroundings::any_caller();
    let place = &remove.place;
    let folders = if place.user || place.sys_prefix || place.prefix.is_some() {
        vec![Place::of(place, &caller)?.data.join("kernels")]
    } else {
        kernelspec_folders(&caller)
    };
    let removed = remove_kernelspec(&remove.name, &folders).map_err(|error| {
        let code = match &error {
            RemoveError::Remove { .. } => exit::UNAVAILABLE,
            _ => exit::USAGE,
        };
        (code, error.to_string())
    })?;
    let (name, folder) = (&remove.name, removed.display());
    Ok(format!("kernelspec {name} is removed from {folder}"))
}

/// A path as it means the same from everywhere; the name of a program on PATH stays one.
fn absolute(here: &Path, python: &Path) -> PathBuf {
    if python.components().count() == 1 {
        python.to_owned()
    } else {
        here.join(python)
    }
}
