//! What can be said of sessions and their server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::args::PolicyArgument;
use crate::config::parse_wait;

const SESSIONS_HELP: &str = "\
Without a subcommand: list.

No server is started for this. Sessions of all managers of a home (HERMES_HOME) are found: those of the \
background server, and those of programs that use the library. All are asked at the same time; one that \
does not answer within 2 s is named on stderr, with --json also as an object with `error` and `manager`.

Exit codes: 0 success; 2 there is no such session or manager; 125 a manager cannot be reached; `wait` ends with \
the code of the last result, as exec does.

Examples:
  warmcell exec -s a 'x = 1'
  warmcell sessions
  warmcell sessions show a
  warmcell sessions close a";

/// The arguments of `warmcell sessions`.
#[derive(Debug, Args)]
#[command(after_help = SESSIONS_HELP)]
pub(super) struct SessionsArguments {
    #[command(subcommand)]
    pub(super) command: Option<SessionsCommand>,

    /// Print JSON, and nothing else on stdout.
    #[arg(long, global = true)]
    pub(super) json: bool,

    /// The manager that is meant, if several have a session of that name: its id or the number of
    /// its process.
    #[arg(long, global = true, value_name = "ID")]
    pub(super) manager: Option<String>,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List the sessions that live, with their managers.
    List,
    /// Show one: cells, variables with type and size, memory, CPU, tool calls.
    Show {
        /// The session.
        name: String,
    },
    /// Print what happens in one, as it happens.
    Events {
        /// The session.
        name: String,
    },
    /// Wait until no cell runs or waits in one, and print the results that nobody has received.
    Wait {
        /// The session.
        name: String,
        /// Wait so many seconds at most; then the result so far is printed.
        #[arg(
            short,
            long,
            value_name = "SECONDS",
            allow_negative_numbers = true,
            value_parser = wait
        )]
        timeout: Option<Duration>,
    },
    /// Interrupt the cell that runs in one, and say what became of its state.
    Interrupt {
        /// The session.
        name: String,
        /// What to do with the cell; what it was started with, if left out. A second interrupt kills the
        /// kernel in any case.
        #[arg(long, value_name = "POLICY")]
        on_interrupt: Option<PolicyArgument>,
    },
    /// Discard the state of one: a cell that runs is ended as interrupted.
    Reset {
        /// The session.
        name: String,
    },
    /// End one, or all (--all): a cell that runs is ended as interrupted.
    Close {
        /// The session.
        #[arg(conflicts_with = "all")]
        name: Option<String>,
        /// All sessions of all managers, or of the one that --manager names.
        #[arg(long)]
        all: bool,
    },
}

const SERVE_HELP: &str = "\
`warmcell exec -s NAME` starts the server by itself; it ends by itself after 10 minutes without a kernel. \
This command is for those who want to see it, keep it, or end it.

Exit codes: 0 it has ended; 2 the address is none; 125 it could not be started, cannot listen, or one runs \
already.";

/// Seconds, 0 for never.
fn idle_exit(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_no_number| {
        format!("it takes whole seconds from 0 (never) to 4294967295, got {text}")
    })
}

/// A time to wait.
fn wait(text: &str) -> Result<Duration, String> {
    parse_wait(text).map_err(|error| error.to_string())
}

/// The arguments of `warmcell serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(super) struct ServeArguments {
    /// End the server that runs, of whatever version, with all its sessions; one that does not answer by
    /// a signal.
    #[arg(long)]
    pub(super) stop: bool,

    /// End by itself after so many seconds without a kernel; 0 for never.
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "stop",
        allow_negative_numbers = true,
        value_parser = idle_exit
    )]
    pub(super) idle_exit: Option<u32>,

    /// Print one JSON object on stdout once it serves, and nothing else: socket, pid, version, home, and
    /// the address if there is one (`tcp`, with the token unless that came from a file).
    #[arg(long)]
    pub(super) json: bool,

    /// Listen on a TCP address too (127.0.0.1:8888; port 0 for any): for Jupyter front ends. Whoever has
    /// the token that is printed runs code as you; nothing is encrypted.
    #[arg(long, value_name = "ADDR", conflicts_with = "stop")]
    pub(super) tcp: Option<String>,

    /// Take the token from a file that you alone can read (mode 0600), and do not print it.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub(super) token_file: Option<PathBuf>,

    /// Started by a client: stdin holds the lock, stdout is told when the door is open.
    #[arg(long, hide = true)]
    pub(super) started: bool,
}
