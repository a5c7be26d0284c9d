//! What can be said to `warmcell kernel` and `warmcell kernelspec`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::check::names;
use crate::config::Limits;

const KERNEL_HELP: &str = "\
A Jupyter front end starts this by itself, once `warmcell kernelspec install` has made it a choice there. \
By hand: `warmcell kernel -f k.json`, then `jupyter console --existing k.json`.

Cells have no time limit and no tool budget. An interrupt raises KeyboardInterrupt and keeps the state; a \
second one within 3 s kills the Python. The kernel ends on a shutdown_request, when the front end that has \
started it is gone, or on SIGTERM, and leaves nothing behind.

Settings of IPython's (`--Class.name=value`), which some front ends give to every kernel named python3, are \
passed over. Further words, which Jupyter hands on from its own command line (`jupyter run --kernel \
warmcell s.py`), are ignored, and told on stderr.";

/// The words of a command line without what front ends add for IPython: nbclient gives a kernel that
/// bears the name python3 `--HistoryManager.hist_file=:memory:`, whatever it is.
pub(super) fn without_ipython_settings(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "kernel") {
        words.retain(|word| !is_ipython_setting(word));
    }
    words
}

/// The option of `warmcell kernel` that there is not, if one stands before everything that is known: what
/// follows it would be taken for Jupyter's own words.
pub(super) fn unknown_option(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().skip_while(|word| *word != "kernel").skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        match name {
            "-f" | "--file" | "--python" | "--kernelspec" => {
                if !text.contains('=') {
                    words.next();
                }
            }
            "--no-redact" | "-h" | "--help" | "-V" | "--version" => {}
            _ if name.starts_with("-f") && !name.starts_with("--") => {}
            _ if name.starts_with('-') => return Some(text.into_owned()),
            _ => return None,
        }
    }
    None
}

fn is_ipython_setting(word: &OsStr) -> bool {
    let Some((name, _value)) = word
        .to_str()
        .and_then(|it| it.strip_prefix("--")?.split_once('='))
    else {
        return false;
    };
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
    };
    // Options of ours have no dot, and no capital.
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.contains('.')
        && name.split('.').all(is_word)
}

/// The arguments of `warmcell kernel`.
#[derive(Debug, Args)]
#[command(after_help = KERNEL_HELP)]
pub(super) struct KernelArguments {
    /// The connection file: where to listen, and the key. If it does not exist it is made, with free
    /// ports of 127.0.0.1 and a new key, and removed at the end.
    #[arg(short = 'f', long = "file", value_name = "CONNECTION_FILE")]
    pub(super) file: PathBuf,

    /// The Python to use; no other is tried. Otherwise that of `VIRTUAL_ENV`, else the one in which the
    /// front end runs that has started this, else python3 on PATH.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,

    /// The folder of the kernelspec by which this was started: variables that its `env` sets reach cells.
    #[arg(long, value_name = "DIR")]
    pub(super) kernelspec: Option<PathBuf>,

    /// Show secrets as they are. Otherwise what looks like a token, a key or a password is `[redacted:KIND]`
    /// in what cells show.
    #[arg(long)]
    pub(super) no_redact: bool,

    /// What Jupyter hands on from its own command line.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(super) ignored: Vec<OsString>,
}

const CHECK_HELP: &str = "\
The kernel is started as a front end of Jupyter's starts it, in an empty folder, several times; it is \
interrupted, killed and restarted, and runs cells in Python. Whatever it leaves behind is counted, named and \
ended. Checks: start, reuse, output, late-output, interrupt-idle, interrupt-sleep, interrupt-await, \
interrupt-child, interrupt-c, timeout, descriptors, restart, death-inside, death-killed, orphans-killed, \
orphans-shutdown. Of a kernel of another language those are skipped that are made of cells.

Exit codes:
  0    no check failed    125  the check could not be made
  1    one has failed     130  interrupted
  2    usage              141  stdout was closed

Examples:
  warmcell check python3
  warmcell check ./my-kernel/kernel.json --json";

/// The arguments of `warmcell check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(super) struct CheckArguments {
    /// The kernel: the name of its kernelspec (`warmcell kernelspec list`), or, with a `/` in it, the path of a
    /// `kernel.json` or of the folder that holds one.
    #[arg(value_name = "KERNELSPEC")]
    pub(super) kernel: String,

    /// How long the kernel may take to start, 0.001 to 86400 seconds.
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "SECONDS", default_value = "30", value_parser = start_timeout)]
    pub(super) start_timeout: Duration,

    /// The checks to make, by name, beside `start`; all if left out.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = check_name)]
    pub(super) only: Vec<String>,

    /// Print one JSON object, and nothing else on stdout.
    #[arg(long)]
    pub(super) json: bool,

    /// Its stdin is a line to the command that was typed: when that is gone this ends too.
    #[arg(long, hide = true)]
    pub(super) on_a_line: bool,
}

fn check_name(text: &str) -> Result<String, String> {
    let names = names();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "there is no such check; there are {}",
        names.join(", ")
    ))
}

fn start_timeout(text: &str) -> Result<Duration, String> {
    Limits::parse_timeout(text).map_err(|error| error.to_string())
}

/// The arguments of `warmcell kernelspec`.
#[derive(Debug, Args)]
pub(super) struct KernelspecArguments {
    #[command(subcommand)]
    pub(super) command: KernelspecCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum KernelspecCommand {
    /// List the kernels that Jupyter's front ends offer, and what is wrong with others.
    List(KernelspecList),
    /// Make Warmcell a choice in Jupyter's front ends.
    Install(KernelspecInstall),
    /// Take a kernelspec of Warmcell's away again; those of others are left as they are.
    Remove(KernelspecRemove),
}

/// The arguments of `warmcell kernelspec list`.
#[derive(Debug, Args)]
pub(super) struct KernelspecList {
    /// Print one JSON object: `kernelspecs`, as Jupyter has it, and `problems`.
    #[arg(long)]
    pub(super) json: bool,
}

/// Where a kernelspec is.
#[derive(Debug, Args)]
pub(super) struct KernelspecPlace {
    /// For this user.
    #[arg(long, conflicts_with_all = ["sys_prefix", "prefix"])]
    pub(super) user: bool,

    /// In the Python environment that is active (`VIRTUAL_ENV`, `CONDA_PREFIX`), else that of python3 on PATH.
    #[arg(long, conflicts_with = "prefix")]
    pub(super) sys_prefix: bool,

    /// In DIR/share/jupyter/kernels.
    #[arg(long, value_name = "DIR")]
    pub(super) prefix: Option<PathBuf>,
}

const INSTALL_HELP: &str = "\
Without a place it is for this user, as with --user.

Which Python its kernels run is told. With --sys-prefix and --prefix it is that of the environment in which it is \
installed, if there is one. With --user it is not fixed: that of the environment that is active where a front end \
is started (VIRTUAL_ENV), else the one in which the front end itself runs, else python3 on PATH. --python fixes it.

The variables that `env` in its kernel.json sets reach cells, whatever their names, but for the agent's own \
credentials; all else of the environment is scrubbed as always.";

/// The arguments of `warmcell kernelspec install`.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
pub(super) struct KernelspecInstall {
    #[command(flatten)]
    pub(super) place: KernelspecPlace,

    /// The name by which the kernel is asked for; `python3` takes the place of ipykernel's.
    #[arg(long, default_value = "warmcell")]
    pub(super) name: String,

    /// The name that front ends show.
    #[arg(long, value_name = "TEXT", default_value = "Python (Warmcell)")]
    pub(super) display_name: String,

    /// The Python of its kernels; it is tried once.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,

    /// Its kernels show secrets as they are: for a person's own notebooks.
    #[arg(long)]
    pub(super) no_redact: bool,
}

/// The arguments of `warmcell kernelspec remove`.
#[derive(Debug, Args)]
pub(super) struct KernelspecRemove {
    /// Its name.
    pub(super) name: String,

    #[command(flatten)]
    pub(super) place: KernelspecPlace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_ipython_are_passed_over_and_nothing_else() {
        let kept = |words: &[&str]| -> Vec<String> {
            let words = words.iter().map(OsString::from).collect();
            let kept = without_ipython_settings(words).into_iter();
            kept.map(|word| word.into_string().unwrap()).collect()
        };
        let settings = [
            "--HistoryManager.hist_file=:memory:",
            "--IPKernelApp.matplotlib=",
            "--A.b.c_1=x y",
        ];
        let words = ["warmcell", "kernel", "-f", "k.json"];
        assert_eq!(kept(&[&words[..], &settings].concat()), words);
        // Of what is not one, clap says what is wrong.
        for other in [
            "--bogus=1",
            "--a.b=1",
            "--A=1",
            "--A.b",
            "A.b=1",
            "--A..b=1",
            "-A.b=1",
        ] {
            let words = ["warmcell", "kernel", other];
            assert_eq!(kept(&words), words);
        }
        let elsewhere = ["warmcell", "exec", "--A.b=1"];
        assert_eq!(kept(&elsewhere), elsewhere);
    }
}
