//! What can be said to `warmcell kernel` and `warmcell kernelspec`.

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
started it is gone, or on SIGTERM, and leaves nothing behind.";

/// The arguments of `warmcell kernel`.
#[derive(Debug, Args)]
#[command(after_help = KERNEL_HELP)]
pub(super) struct KernelArguments {
    /// The connection file: where to listen, and the key. If it does not exist it is made, with free
    /// ports of 127.0.0.1 and a new key, and removed at the end.
    #[arg(short = 'f', long = "file", value_name = "CONNECTION_FILE")]
    pub(super) file: PathBuf,

    /// The Python to use; no other is tried. Otherwise that of `VIRTUAL_ENV`, else python3 on PATH.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
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
}

/// The arguments of `warmcell kernelspec list`.
#[derive(Debug, Args)]
pub(super) struct KernelspecList {
    /// Print one JSON object: `kernelspecs`, as Jupyter has it, and `problems`.
    #[arg(long)]
    pub(super) json: bool,
}

/// The arguments of `warmcell kernelspec install`.
#[derive(Debug, Args)]
pub(super) struct KernelspecInstall {
    /// For this user; so it is too if no place is named.
    #[arg(long, conflicts_with_all = ["sys_prefix", "prefix"])]
    pub(super) user: bool,

    /// For those who use the active Python environment (`VIRTUAL_ENV`, `CONDA_PREFIX`, that of python3 on PATH).
    #[arg(long, conflicts_with = "prefix")]
    pub(super) sys_prefix: bool,

    /// In DIR/share/jupyter/kernels.
    #[arg(long, value_name = "DIR")]
    pub(super) prefix: Option<PathBuf>,

    /// The name by which the kernel is asked for; `python3` takes the place of ipykernel's.
    #[arg(long, default_value = "warmcell")]
    pub(super) name: String,

    /// The name that front ends show.
    #[arg(long, value_name = "TEXT", default_value = "Python (Warmcell)")]
    pub(super) display_name: String,

    /// The Python of its kernels. Otherwise that of the front end's environment.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
}
