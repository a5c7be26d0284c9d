//! What can be said to `warmcell kernel` and `warmcell kernelspec`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

const KERNEL_HELP: &str = "\
A Jupyter front end starts this by itself, once `warmcell kernelspec install` has made it a choice there. \
By hand: `warmcell kernel -f k.json`, then `jupyter console --existing k.json`.

Cells have no time limit and no tool budget. An interrupt raises KeyboardInterrupt and keeps the state; a \
second one within 3 s kills the Python. The kernel ends on a shutdown_request, when the front end that has \
started it is gone, or on SIGTERM, and leaves nothing behind.

Further words, which Jupyter hands on from its own command line (`jupyter run --kernel warmcell s.py`), are \
ignored, and told on stderr.";

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

    /// What Jupyter hands on from its own command line.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(super) ignored: Vec<OsString>,
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
}

/// The arguments of `warmcell kernelspec remove`.
#[derive(Debug, Args)]
pub(super) struct KernelspecRemove {
    /// Its name.
    pub(super) name: String,

    #[command(flatten)]
    pub(super) place: KernelspecPlace,
}
