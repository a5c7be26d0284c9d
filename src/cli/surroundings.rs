//! What this process was started with: the only place that reads environment, home and directory.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::args::ExecArguments;
use super::flags::in_flags;
use super::streams;
use super::variables::{named_variables, names_alone, unset_notice};
use crate::client::Home;
use crate::config::{
    Caller, ConfigurationFile, ProcessLimits, Settings, Values, is_configuration_variable,
    secrets_file,
};
use crate::environment::{
    DROPPED, DroppedNames, HIDDEN, front_end_python, named_kernel, never_passes, scrub_but,
};
use crate::ids::random_key;
use crate::output::redact::Hidden;
use crate::process::{hide_memory, mend_name, running_program, start_anew};

/// By these kernelspecs are found, and secrets known again; kernels do not see them.
const LOOKED_UP: [&str; 7] = [
    HIDDEN,
    DROPPED,
    "JUPYTER_PATH",
    "JUPYTER_DATA_DIR",
    "JUPYTER_PREFER_ENV_PATH",
    "IPYTHONDIR",
    "PYTHONUSERBASE",
];

/// Takes out of this process what a cell may not see: root can read the environment and memory of
/// any process through `/proc`. If there is something to take out the program starts itself anew
/// without it, and this does not return; a sentence, if that fails.
///
/// It needs no mark of having been done: what is left is kept whole the next time. What a later
/// option lets through by name must pass here too.
pub(super) fn hide_secrets() -> Option<String> {
    hide_secrets_but(&[], &[])
}

/// The same for `exec`: what it was told to let through stays.
pub(super) fn hide_secrets_for(arguments: &ExecArguments, passed: &[String]) -> Option<String> {
    let mut named = names_alone(&arguments.env);
    named.extend_from_slice(passed);
    hide_secrets_but(&[], &named)
}

/// The same, and these variables stay if they hold a number, and those that were named on purpose.
pub(super) fn hide_secrets_but(numbers: &[&str], named: &[String]) -> Option<String> {
    let all = entries();
    let scrubbed = scrub_but(readable(&all), named);
    let (kept, dropped) = reduced_but(all, numbers, named);
    if dropped == 0 {
        mend_name();
        return None;
    }
    streams::keep_closed();
    let kept = with_fingerprints(kept, &scrubbed.secrets);
    let error = start_anew(with_names(kept, scrubbed.dropped_names()));
    Some(format!(
        "what the environment holds cannot be hidden from cells ({error}): one that runs as root \
         can read it through /proc"
    ))
}

/// Those that are variables, and text.
fn readable(entries: &[Vec<u8>]) -> impl Iterator<Item = (String, String)> {
    entries.iter().filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    })
}

/// Adds the names of what was taken out: who misses one in a cell is told why.
fn with_names(
    mut kept: Vec<(OsString, OsString)>,
    names: DroppedNames,
) -> Vec<(OsString, OsString)> {
    let earlier = kept.iter().position(|(name, _)| name == DROPPED);
    let earlier = earlier.map(|at| kept.remove(at).1);
    let earlier = earlier.as_deref().and_then(OsStr::to_str);
    kept.extend(dropped_text(names, earlier).map(|it| (DROPPED.into(), it.into())));
    kept
}

/// The names of what was dropped, with those of an earlier start, as text; `None` if there are none.
pub(super) fn dropped_text(mut names: DroppedNames, earlier: Option<&str>) -> Option<String> {
    names.join(&DroppedNames::parse(earlier.unwrap_or_default()));
    (!names.is_empty()).then(|| names.to_text())
}

/// Adds that by which their values are known again in what cells print, without the values.
fn with_fingerprints(
    mut kept: Vec<(OsString, OsString)>,
    secrets: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let Some(text) = hidden(secrets) else {
        return kept;
    };
    match kept.iter_mut().find(|(name, _)| name == HIDDEN) {
        // From before.
        Some((_, earlier)) => {
            earlier.push(",");
            earlier.push(text);
        }
        None => kept.push((HIDDEN.into(), text.into())),
    }
    kept
}

/// That by which the values of these variables are known again, if any is a secret.
pub(super) fn hidden(secrets: &[(String, String)]) -> Option<String> {
    let pairs = secrets.iter();
    let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
    let hidden = Hidden::of(random_key(), pairs);
    (!hidden.is_empty()).then(|| hidden.to_text())
}

/// The environment as others see it: also what is no variable, and what the C library skips.
fn entries() -> Vec<Vec<u8>> {
    if let Ok(block) = fs::read("/proc/self/environ") {
        let entries = block.strip_suffix(b"\0").unwrap_or(&block);
        return entries
            .split(|byte| *byte == 0)
            .filter(|_| !block.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
    }
    let joined =
        |(name, value): (OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    env::vars_os().map(joined).collect()
}

/// What a cell may see of them, the first of each name, and how many entries that leaves out.
fn reduced(entries: Vec<Vec<u8>>) -> (Vec<(OsString, OsString)>, usize) {
    reduced_but(entries, &[], &[])
}

fn reduced_but(
    entries: Vec<Vec<u8>>,
    numbers: &[&str],
    named: &[String],
) -> (Vec<(OsString, OsString)>, usize) {
    let total = entries.len();
    let mut kept: Vec<(OsString, OsString)> = Vec::new();
    for entry in entries {
        let mut parts = entry.splitn(2, |byte| *byte == b'=');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        // Our own folders need not be UTF-8; nothing that tells secrets apart depends on it.
        let readable = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let passes = LOOKED_UP.iter().any(|it| it.as_bytes() == name)
            // Kernels do not see them.
            || is_configuration_variable(&readable(name))
            || !scrub_but([(readable(name), readable(value))], named)
                .kept
                .is_empty()
            || (is_number && numbers.iter().any(|it| it.as_bytes() == name));
        if passes && kept.iter().all(|(known, _)| known.as_bytes() != name) {
            let name = OsStr::from_bytes(name).to_owned();
            kept.push((name, OsString::from_vec(value.to_vec())));
        }
    }
    let dropped = total - kept.len();
    (kept, dropped)
}

/// Keeps others of this user from reading what this process holds. That is all that a client does: it
/// runs no cell, and whoever started it holds the same.
pub(super) fn hide_from_others() -> Option<String> {
    hide_memory();
    None
}

/// The number that a variable holds.
pub(super) fn number(name: &str) -> Option<u32> {
    env::var(name).ok()?.parse().ok()
}

/// The session that the environment names.
pub(super) fn session() -> Option<String> {
    let name = env::var_os("WARMCELL_SESSION").filter(|name| !name.is_empty())?;
    Some(name.to_string_lossy().into_owned())
}

/// The settings of a background server.
pub(super) fn server_settings(values: &Values) -> Settings {
    // Of kernels whose caller sends no environment. Whatever else this process has is not theirs.
    let variable = |name: &&str| Some(((*name).to_owned(), env::var(name).ok()?));
    let settings = configured_settings(values);
    let kernel_environment = ["PATH", "HOME", "LANG"]
        .iter()
        .chain(&LOOKED_UP)
        .filter_map(variable)
        .collect();
    Settings {
        kernel_environment: with_secrets_of_home(kernel_environment, &settings.home),
        ledger: Some(settings.home.join("warmcell").join("sessions")),
        ..settings
    }
}

/// Who this is, for display.
pub(super) fn user() -> String {
    env::var("USER")
        .or_else(|_unset| env::var("LOGNAME"))
        .unwrap_or_else(|_unset| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// Where this process is; `None` if that is not there any more.
pub(super) fn directory() -> Option<PathBuf> {
    env::current_dir().ok()
}

/// Where the managers of this user's home are.
pub(super) fn home() -> Home {
    let settings = settings();
    Home::new(settings.runtime_dir.as_deref(), &settings.home, || {
        let mut kept = reduced(entries()).0;
        // The server is not where we are: a relative home would be another one there.
        kept.retain(|(name, _)| name != "HERMES_HOME");
        kept.push(("HERMES_HOME".into(), settings_home()));
        kept
    })
}

fn settings_home() -> OsString {
    settings().home.into_os_string()
}

/// What the configuration says.
pub(super) fn configuration() -> ConfigurationFile {
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    ConfigurationFile::read(&settings().home, variables)
}

/// Why nothing is to be run by this configuration, if so.
pub(super) fn refusal(file: &ConfigurationFile) -> Option<String> {
    let configuration = file.configuration();
    configuration.refusal().or_else(|| {
        let processes = configuration.values.processes?;
        rustix::process::getuid().is_root().then(|| {
            format!(
                "limits.processes is {processes}: the system does not count the processes of root; run warmcell \
                 as another user, or remove it"
            )
        })
    })
}

/// The settings that the environment and the configuration give.
pub(super) fn configured_settings(values: &Values) -> Settings {
    let mut settings = settings().configured(values);
    let below_home = settings.python.as_ref();
    let below_home = below_home.and_then(|it| it.strip_prefix("~").ok());
    if let (Some(rest), Some(home)) = (below_home, env::var_os("HOME")) {
        settings.python = Some(PathBuf::from(home).join(rest));
    }
    settings
}

/// What a new kernel may take, where the configuration limits that.
pub(super) fn configured_limits(values: &Values, own: ProcessLimits) -> Option<ProcessLimits> {
    values.limit_processes().then(|| values.limits(own))
}

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
        // Whatever its name was when it was started.
        bridge: env::current_exe().ok(),
        ..Settings::new(env::current_dir().map_or(home.clone(), |cwd| cwd.join(&home)))
    }
}

/// What stands in `<home>/.env` is masked as what is taken out of the environment.
fn with_secrets_of_home(
    mut environment: Vec<(String, String)>,
    home: &Path,
) -> Vec<(String, String)> {
    let Some(text) = hidden(&secrets_file(home)) else {
        return environment;
    };
    match environment.iter_mut().find(|(name, _)| name == HIDDEN) {
        Some((_, earlier)) => {
            earlier.push(',');
            earlier.push_str(&text);
        }
        None => environment.push((HIDDEN.to_owned(), text)),
    }
    environment
}

/// Who asks for kernels: this process.
///
/// Variables that are not UTF-8 are left out; they could not pass in any case.
pub(super) fn caller(arguments: &ExecArguments) -> Result<Caller, String> {
    let here = env::current_dir()
        .map_err(|error| format!("the current directory cannot be used ({error}); give --cwd"));
    let absolute = |path: &PathBuf, here: Result<PathBuf, String>| {
        if path.is_absolute() {
            Ok(path.clone())
        } else {
            here.map(|here| here.join(path))
        }
    };
    // One that is named with its folder is found from here, wherever the kernel is to be; a name alone is
    // looked up on the PATH.
    let python = match &arguments.python {
        Some(python) if python.as_os_str().as_bytes().contains(&b'/') => {
            Some(absolute(python, here.clone())?)
        }
        python => python.clone(),
    };
    let cwd = match &arguments.cwd {
        Some(cwd) => absolute(cwd, here)?,
        None => here?,
    };
    let named = named_variables(&arguments.env, |name| env::var_os(name))?;
    let caller = Caller {
        cwd,
        python,
        mode: arguments.mode,
        named: named.set,
        ..any_caller()
    };
    let caller = Caller {
        environment: with_secrets_of_home(caller.environment, &settings().home),
        ..caller
    };
    let Some(name) = &arguments.kernel else {
        return Ok(caller);
    };
    let kernel = named_kernel(name, &caller)
        .map_err(|error| format!("--kernel: {}", in_flags(&error.to_string())))?;
    Ok(kernel.asked_for_by(caller))
}

/// Has the server let through what the configuration here does, whatever its own says.
pub(super) fn name_passed(caller: &mut Caller, passed: &[String]) {
    for name in passed.iter().filter(|name| !never_passes(name)) {
        let is_named = caller.named.iter().any(|(known, _)| known == name);
        let value = caller.variable(name).filter(|_| !is_named);
        if let Some(value) = value.map(str::to_owned) {
            caller.named.push((name.clone(), value));
        }
    }
}

/// What is told of variables that were named and are not set here.
pub(super) fn unset(arguments: &ExecArguments) -> Option<String> {
    let named = named_variables(&arguments.env, |name| env::var_os(name)).ok()?;
    unset_notice(&named.unset)
}

/// Who asks for the kernel of a front end: whoever has started this process. `front_end` is its number.
pub(super) fn kernel_caller(
    python: Option<&PathBuf>,
    front_end: Option<u32>,
) -> Result<Caller, String> {
    let cwd = env::current_dir()
        .map_err(|error| format!("the current directory cannot be used ({error})"))?;
    let is_named_with_its_folder =
        |python: &&PathBuf| python.as_os_str().as_bytes().contains(&b'/');
    let python = match python.filter(is_named_with_its_folder) {
        Some(python) => Some(cwd.join(python)),
        None => python.cloned(),
    };
    let caller = any_caller();
    let mut caller = Caller {
        cwd,
        python,
        environment: with_secrets_of_home(caller.environment, &settings().home),
        ..caller
    };
    if caller.python.is_none()
        && let Some(program) = front_end.and_then(running_program)
    {
        caller.python = front_end_python(&program, &caller);
    }
    Ok(caller)
}

/// Who asks, where no cell is run: a directory that is gone costs nothing.
pub(super) fn any_caller() -> Caller {
    let environment = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        // The system allows what no shell can make.
        .filter(|(name, _)| !name.is_empty() && !name.contains('='))
        .collect();
    Caller {
        environment,
        cwd: directory().unwrap_or_else(|| PathBuf::from("/")),
        umask: umask(),
        // A kernel of this process has what this process has.
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: Vec::new(),
    }
}

/// The file mode creation mask. It can only be asked for by changing it: for that moment to one that
/// lets nobody in.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::from_raw_mode(0o777));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(entries: &[&[u8]]) -> Vec<Vec<u8>> {
        entries.iter().map(|entry| entry.to_vec()).collect()
    }

    /// As the next start finds them.
    fn joined(kept: &[(OsString, OsString)]) -> Vec<Vec<u8>> {
        let entry = |(name, value): &(OsString, OsString)| {
            [name.as_bytes(), b"=", value.as_bytes()].concat()
        };
        kept.iter().map(entry).collect()
    }

    #[test]
    fn what_a_cell_may_see_is_kept_and_nothing_else() {
        let all = owned(&[
            b"PATH=/bin",
            b"HERMES_HOME=/\xff=x",
            b"MY_TOKEN=secret",
            b"no variable, but a secret",
            b"=secret",
            b"",
            b"PATH=the C library skips a secret here",
            b"https_proxy=http://user:secret@proxy",
            b"LANG\xff=C",
            b"LANG=",
        ]);
        let (kept, dropped) = reduced(all);
        let kept = joined(&kept);
        assert_eq!(
            kept,
            owned(&[b"PATH=/bin", b"HERMES_HOME=/\xff=x", b"LANG="])
        );
        assert_eq!(dropped, 7);
    }

    proptest! {
        /// Otherwise it would start anew for ever.
        #[test]
        fn what_was_kept_is_kept_whole_the_next_time(
            entries in prop::collection::vec(
                prop_oneof![
                    "(PATH|LC_[A-Z]{0,2}|TMP|X|http_proxy|XDG_(A|KEY))=?[a-z@=]{0,3}"
                        .prop_map(String::into_bytes),
                    prop::collection::vec(1..=255_u8, 0..8),
                ],
                0..12,
            )
        ) {
            let (kept, _) = reduced(entries);
            let mut again = joined(&kept);
            // The order may be another.
            again.sort();
            prop_assert_eq!(reduced(again).1, 0);
        }
    }
}
