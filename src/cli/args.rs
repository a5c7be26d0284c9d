//! What can be said on the command line.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use super::args_kernel::{
    CheckArguments, KernelArguments, KernelspecArguments, unknown_option, without_ipython_settings,
};
use super::args_sessions::{ServeArguments, SessionsArguments};
use super::doctor::DoctorArguments;
use super::logs::LogsArguments;
use super::{
    bridge, check, doctor, exec, exit, kernel, kernelspec, logs, serve, sessions, show, streams,
};
use crate::config::{Limits, Mode};
use crate::execution::{ErrorClass, KernelReport, Outcome};
use crate::process::survive_file_size_limit;
use crate::session::Policy;

/// Runs Python cells in a live kernel: state persists, cells call host tools, limits hold.
#[derive(Debug, Parser)]
#[command(
    name = "warmcell",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one or several cells, in a kernel of their own or in a session that lives on.
    Exec(ExecArguments),
    /// List sessions, look at them, wait for them, end them.
    Sessions(SessionsArguments),
    /// Run the background server in the foreground, or stop the one that runs.
    Serve(ServeArguments),
    /// List the kernels that Jupyter's front ends offer, and make Warmcell one of them.
    Kernelspec(KernelspecArguments),
    /// Be a kernel of a Jupyter front end.
    Kernel(KernelArguments),
    /// Check a kernel of Jupyter's, ours or any other, against the lifecycle contract.
    Check(CheckArguments),
    /// Say which Python, versions, limits and places are in force, what is wrong, and what mends it.
    Doctor(DoctorArguments),
    /// Show the log of the managers.
    Logs(LogsArguments),
    /// Stand before a kernel that is not ours; started by a manager, not by hand.
    #[command(hide = true)]
    Bridge,
}

const EXEC_HELP: &str = "\
Output: the cell's stdout goes to stdout as it comes, and so does the value of its last expression; \
its stderr, tracebacks and notices go to stderr. Colours and the like are kept on a terminal alone.

A cell's stdin is empty. Of the environment it sees a fixed list of variables (PATH, HOME, LANG, LC_*, \
VIRTUAL_ENV, PYTHONPATH, ...), none with a secret-looking name; --env lets others through, but never \
the agent's own credentials.

Tools in a cell's namespace: read_file, write_file, terminal.

Environment: HERMES_HOME (default ~/.hermes) holds the configuration (config.yaml) and what is unpacked and \
cached; VIRTUAL_ENV, CONDA_PREFIX and PATH say which Python. Each key of the configuration has a variable too: \
code_execution.timeout is WARMCELL_CODE_EXECUTION_TIMEOUT. Flags win over variables, and these over the file.

Exit codes:
  0    success                  124  timeout
  n    sys.exit(n)              125  no kernel could be had
  1    exception                126  the kernel died
  2    usage, or what the       130  interrupted
       configuration refuses    141  stdout was closed

Examples:
  warmcell exec 'print(6*7)'
  warmcell exec -f load.py -f analyse.py
  warmcell exec --env DATABASE_URL --env DEBUG=1 -f report.py
  echo 'read_file(\"Cargo.toml\")[\"total_lines\"]' | warmcell exec --json";

/// The arguments of `warmcell exec`.
#[derive(Debug, Args)]
#[command(after_help = EXEC_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct ExecArguments {
    /// Python source; `-` reads it from stdin, and so does leaving it out in a pipe.
    #[arg(
        value_name = "CODE",
        conflicts_with = "files",
        allow_hyphen_values = false
    )]
    pub(super) code: Option<String>,

    /// A file that holds a cell, `-` for stdin. Several are cells of one kernel, in order; the first that fails
    /// is the last.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// The session whose kernel runs the cells and lives on in the background; made if there is none.
    /// Otherwise `WARMCELL_SESSION`, else a kernel of their own.
    #[arg(short, long, value_name = "NAME")]
    pub(super) session: Option<String>,

    /// Discard the state of the session's kernel first.
    #[arg(long)]
    pub(super) reset: bool,

    /// Do not wait for the cell: `warmcell sessions wait NAME` gives its result.
    #[arg(long)]
    pub(super) detach: bool,

    /// The time limit of each cell, 0.001 to 86400 seconds; otherwise what the configuration says
    /// (`code_execution.timeout`) [default: 300]
    #[arg(
        short,
        long,
        allow_negative_numbers = true,
        value_name = "SECONDS", value_parser = timeout)]
    pub(super) timeout: Option<Duration>,

    /// How many tool calls each cell may make; otherwise `code_execution.max_tool_calls` [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) max_tool_calls: Option<u32>,

    /// `project`: in the working directory, with the project's Python. `strict`: in an empty folder that goes
    /// with the kernel, with a Python that no active environment says. Otherwise `code_execution.mode`
    /// [default: project]
    #[arg(long, value_name = "MODE", value_parser = Mode::from_str)]
    pub(super) mode: Option<Mode>,

    /// The Python to use; no other is tried. Otherwise `code_execution.python`, else the first that runs and
    /// is 3.8 or newer: that of `VIRTUAL_ENV`, of `CONDA_PREFIX`, of a folder `.venv` in the working
    /// directory, python3 on PATH.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,

    /// A kernel that is not ours, by the name of its kernelspec (`warmcell kernelspec list`).
    #[arg(long, value_name = "NAME", conflicts_with = "python")]
    pub(super) kernel: Option<String>,

    /// The working directory of the kernel; not in strict mode.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,

    /// A variable that cells see besides the usual ones: with the value that it has here, or with this one.
    /// May be given several times. Fixed when the kernel starts.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,

    /// The tools that cells may call, by name; all if left out.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        conflicts_with = "no_tools"
    )]
    pub(super) tools: Option<Vec<String>>,

    /// Cells may call no tool.
    #[arg(long)]
    pub(super) no_tools: bool,

    /// What to do with a cell whose time is up; otherwise `code_execution.on_timeout` [default: restart]
    #[arg(long, value_name = "POLICY")]
    pub(super) on_timeout: Option<PolicyArgument>,

    /// What to do with a cell that is interrupted; a second interrupt kills the kernel in any case.
    /// Otherwise `code_execution.on_interrupt` [default: restart]
    #[arg(long, value_name = "POLICY")]
    pub(super) on_interrupt: Option<PolicyArgument>,

    /// Show secrets as they are. Otherwise what looks like a token, a key or a password is `[redacted:KIND]`
    /// in all that is printed.
    #[arg(long)]
    pub(super) no_redact: bool,

    /// Print one JSON object a cell, and nothing else on stdout.
    #[arg(long)]
    pub(super) json: bool,
}

/// A policy, by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum PolicyArgument {
    /// Kill the kernel and start a fresh one.
    Restart,
    /// Raise `KeyboardInterrupt`, and keep state if the cell ends within 3 s; else kill the kernel.
    Interrupt,
}

impl From<PolicyArgument> for Policy {
    fn from(policy: PolicyArgument) -> Self {
        match policy {
            PolicyArgument::Restart => Self::Restart,
            PolicyArgument::Interrupt => Self::Interrupt,
        }
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    Limits::parse_timeout(text).map_err(|error| error.to_string())
}

/// What is wrong with the arguments, in one line.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let what = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = what.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Runs the command that this process was started as; its exit code.
pub fn main() -> ExitCode {
    survive_file_size_limit();
    let words = without_ipython_settings(std::env::args_os().collect());
    let unknown = unknown_option(&words);
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = match unknown {
                // It has taken all that follows for words of Jupyter's.
                Some(option) if error.kind() == ErrorKind::MissingRequiredArgument => {
                    let sentence = format!("unexpected argument '{option}' found");
                    let mut command = Arguments::command();
                    command.error(ErrorKind::UnknownArgument, sentence)
                }
                _ => error,
            };
            // Help and version are no errors; everything else is usage. A closed stdout or stderr
            // leaves nobody to tell.
            if !error.use_stderr() {
                let told = write!(streams::stdout(), "{}", error.render());
                return told.map_or_else(
                    |error| ExitCode::from(exit::unwritten(&error)),
                    |()| ExitCode::SUCCESS,
                );
            }
            if std::env::args_os().any(|word| word == "--json") {
                let outcome =
                    Outcome::not_run(ErrorClass::Usage, sentence(&error), KernelReport::none());
                if let Err(error) = show::json_line(&outcome) {
                    return ExitCode::from(exit::unwritten(&error));
                }
            } else {
                drop(error.print());
            }
            return ExitCode::from(exit::USAGE);
        }
    };
    match arguments.command {
        Command::Exec(arguments) => exec::main(&arguments),
        Command::Sessions(arguments) => sessions::main(&arguments),
        Command::Serve(arguments) => serve::main(&arguments),
        Command::Kernel(arguments) => kernel::main(&arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Kernelspec(arguments) => kernelspec::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Logs(arguments) => logs::main(&arguments),
        Command::Bridge => bridge::main(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn code_and_files_exclude_each_other() {
        let parse = |words: &[&str]| Arguments::try_parse_from(words);
        assert!(parse(&["warmcell", "exec", "1", "-f", "a.py"]).is_err());
        assert!(parse(&["warmcell", "exec", "--tools", "a", "--no-tools", "1"]).is_err());
        assert!(parse(&["warmcell", "exec", "-t", "0", "1"]).is_err());
        let Command::Exec(exec) =
            parse(&["warmcell", "exec", "-f", "a.py", "-f", "b.py", "-t", "0.5"])
                .unwrap()
                .command
        else {
            panic!("another command");
        };
        assert_eq!(exec.files, [PathBuf::from("a.py"), PathBuf::from("b.py")]);
        assert_eq!(exec.timeout, Some(Duration::from_millis(500)));
        let Command::Exec(exec) = parse(&["warmcell", "exec", "-"]).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(exec.code.as_deref(), Some("-"));
    }
}
