//! Whether the programs are there that a kernelspec names.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::interpreter::on_path;
use super::kernelspecs::InstalledKernelspec;
use crate::config::{CONNECTION_FILE, Caller};

/// What is missing for a kernel of this kernelspec, as it goes on after its file's name; `None` if
/// nothing is known to be.
///
/// Looks at the file system (a few blocking calls), runs nothing.
pub(super) fn missing(installed: &InstalledKernelspec, caller: &Caller) -> Option<String> {
    let program = installed.spec.argv.first()?;
    // Where a path leads that is not absolute, and a name that is looked up on a PATH of the
    // kernelspec's own, shows where the kernel is started.
    let shows_later = if program.contains('/') {
        !program.starts_with('/')
    } else {
        installed.spec.env.contains_key("PATH")
    };
    if !shows_later && let Some(what) = absent(program, caller) {
        return Some(format!("its program {program} {what}"));
    }
    // Ours are started without it where a name means our kernel.
    let argv = &installed.spec.argv;
    if !installed.is_ours() && !argv.iter().any(|word| word.contains(CONNECTION_FILE)) {
        return Some(format!("no word of its argv has {CONNECTION_FILE} in it"));
    }
    let python = installed.own_python()?;
    let python = python.to_str()?;
    let what = absent(python, caller)?;
    Some(format!("the Python that it names, {python}, {what}"))
}

/// What is wrong with a program, as it goes on after its name.
fn absent(program: &str, caller: &Caller) -> Option<String> {
    // Who starts it puts something there.
    if program.contains('{') {
        return None;
    }
    if !program.contains('/') {
        // Of Pythons that are named like this Jupyter takes its own.
        let is_there = is_a_python(program) || on_path(caller, Path::new(program)).is_some();
        return (!is_there).then(|| "is not on PATH".to_owned());
    }
    match caller.cwd.join(program).metadata() {
        Err(error) => Some(format!("is not there ({error})")),
        Ok(found) if !found.is_file() || found.permissions().mode() & 0o111 == 0 => {
            Some("cannot be run: it is no program".to_owned())
        }
        Ok(_) => None,
    }
}

/// `python`, `python3`, `python3.11`
fn is_a_python(name: &str) -> bool {
    let version = name.strip_prefix("python");
    version.is_some_and(|it| it.bytes().all(|it| it == b'.' || it.is_ascii_digit()))
}
