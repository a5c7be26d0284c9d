//! The tool: arguments in, result out.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::editors::waiting_editor;
use super::foreground::{Ending, Limit, run_in_foreground};
use super::hard_floor::hard_floor;
use crate::output::Windowed;
use crate::provisioner::{JobExit, JobSpec};
use crate::tools::shown::{named, shown_path};
use crate::tools::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolFailure, ToolResult, ToolSpec,
};

/// The exit code of a command that took too long, as `timeout` of coreutils has it.
const TIMED_OUT: i32 = 124;
/// The exit code of a command that was interrupted, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;
/// The exit code when nobody knows.
const LOST: i32 = -1;
/// What shells add to the number of the signal that ended a command.
const SIGNAL_BASE: i32 = 128;
/// The longest single argument that Linux gives to a program, less its final NUL.
const LONGEST_COMMAND: usize = 131_071;

static SPEC: ToolSpec = ToolSpec {
    name: "terminal",
    about: "Runs a shell command in the foreground and returns what it printed.",
    parameters: &[
        Parameter {
            name: "command",
            json_type: "string",
            default: ParameterDefault::Required,
            about: "The command, as for `bash -c`.",
        },
        Parameter {
            name: "timeout",
            json_type: "number",
            default: ParameterDefault::Null,
            about: "Seconds after which it is ended; at most the rest of the cell's time.",
        },
        Parameter {
            name: "workdir",
            json_type: "string",
            default: ParameterDefault::Null,
            about: "The directory in which it runs.",
        },
    ],
    returns: &["output", "exit_code", "truncated"],
    refused: &[
        "background",
        "pty",
        "notify",
        "notify_on_complete",
        "watch_patterns",
        "heartbeat",
        "persist_on_release",
    ],
};

/// Runs a shell command in the foreground.
///
/// What the command leaves behind (`cmd &`, daemons) lives until the kernel ends and does not hold
/// the call back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal;

#[async_trait]
impl Tool for Terminal {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> ToolResult {
        match run(&arguments, context).await {
            Ok(result) => result,
            Err(failure) => failure.into_result(&SPEC),
        }
    }
}

async fn run(arguments: &Arguments, context: &ToolContext) -> Result<ToolResult, ToolFailure> {
    let began = Instant::now();
    arguments.check_names(&SPEC)?;
    let command = arguments.text("command")?;
    check_command(command)?;
    let limit = limit(began, arguments.optional_seconds("timeout")?, context);
    let directory = directory(arguments.optional_text("workdir")?, context).await?;
    if let Some(rule) = hard_floor(command, context.user_home.as_deref()) {
        return Err(ToolFailure::refused(format!(
            "terminal: refused by the rule '{}': {}. No setting lifts this; do not try it in \
             another form",
            rule.name, rule.sentence
        )));
    }
    if let Some(editor) = waiting_editor(command) {
        return Err(ToolFailure::usage(format!(
            "terminal: '{editor}' waits for a person's keys, and a command here has no terminal and \
             its input is empty; change the file with write_file or in Python, or give the editor its \
             commands: vim -es -c '...' -c wq FILE"
        )));
    }

    let program = shell().await;
    let spec = JobSpec {
        argv: vec![program.to_owned(), "-c".to_owned(), command.to_owned()],
        environment: environment(context, &directory),
        cwd: directory,
    };
    let (ending, output) = run_in_foreground(spec, limit.at, context).await?;
    Ok(result(ending, output, &limit, program))
}

fn check_command(command: &str) -> Result<(), ToolFailure> {
    if command.trim().is_empty() {
        return Err(ToolFailure::usage(
            "terminal: 'command' is empty; give a shell command",
        ));
    }
    if command.contains('\0') {
        return Err(ToolFailure::usage(
            "terminal: 'command' contains a NUL character, which no command can hold; leave it out",
        ));
    }
    if command.len() > LONGEST_COMMAND {
        return Err(ToolFailure::new(
            "limit",
            format!(
                "terminal: 'command' has {} bytes, the most is {LONGEST_COMMAND}; write it to a \
                 file and run that",
                command.len()
            ),
        ));
    }
    Ok(())
}

/// When the command is ended, and how the limit that applies is called.
fn limit(began: Instant, argument: Option<Duration>, context: &ToolContext) -> Limit {
    let (own, name) = match argument {
        Some(own) => (own, "the 'timeout' of this call"),
        None => (context.terminal_timeout, "terminal.timeout"),
    };
    let own_end = began.checked_add(own);
    match (own_end, context.deadline) {
        (Some(end), Some(deadline)) if deadline < end => rest_of_cell(began, deadline),
        (None, Some(deadline)) => rest_of_cell(began, deadline),
        (end, _) => Limit {
            at: end,
            length: own,
            name,
        },
    }
}

fn rest_of_cell(began: Instant, deadline: Instant) -> Limit {
    Limit {
        at: Some(deadline),
        length: deadline.saturating_duration_since(began),
        name: "the rest of the cell's time",
    }
}

async fn directory(workdir: Option<&str>, context: &ToolContext) -> Result<PathBuf, ToolFailure> {
    let Some(given) = workdir else {
        return match &context.cwd {
            Some(cwd) if is_directory(cwd).await => Ok(cwd.clone()),
            cwd => Err(ToolFailure::failed(format!(
                "terminal: the working directory{} is gone; change to another one or give 'workdir'",
                cwd.as_ref()
                    .map_or_else(String::new, |cwd| format!(" {}", shown_path(cwd)))
            ))),
        };
    };
    let path = context.resolve(given)?;
    if !given.is_empty() && is_directory(&path).await {
        return Ok(path);
    }
    Err(ToolFailure::usage(format!(
        "terminal: 'workdir' must be an existing directory, got {}",
        named(given, &path)
    )))
}

async fn is_directory(path: &std::path::Path) -> bool {
    tokio::fs::metadata(path)
        .await
        .is_ok_and(|metadata| metadata.is_dir())
}

/// The shell of this machine, by its path: PATH of a cell need not lead to it.
async fn shell() -> &'static str {
    static SHELL: OnceCell<&str> = OnceCell::const_new();
    SHELL
        .get_or_init(async || {
            for bash in ["/bin/bash", "/usr/bin/bash"] {
                if tokio::fs::try_exists(bash).await.unwrap_or(false) {
                    return bash;
                }
            }
            "/bin/sh"
        })
        .await
}

fn environment(context: &ToolContext, directory: &std::path::Path) -> Vec<(String, String)> {
    let mut environment: Vec<(String, String)> = context
        .environment
        .iter()
        .filter(|(name, _)| name != "PWD")
        .cloned()
        .collect();
    if let Some(directory) = directory.to_str() {
        environment.push(("PWD".to_owned(), directory.to_owned()));
    }
    environment
}

fn result(ending: Ending, output: Windowed, limit: &Limit, program: &str) -> ToolResult {
    let (exit_code, failure) = match ending {
        Ending::Exited(JobExit::Code(code)) => (code, None),
        Ending::Exited(JobExit::Signal(signal)) => (SIGNAL_BASE + signal, None),
        Ending::Exited(JobExit::NotStarted(errno)) => {
            let error = std::io::Error::from_raw_os_error(errno);
            let message = format!("terminal: {program} could not be started: {error}");
            (LOST, Some(ToolFailure::failed(message)))
        }
        Ending::Exited(JobExit::Ended) => {
            let message = "terminal: the kernel ended, and the command with it";
            (LOST, Some(ToolFailure::new("interrupted", message)))
        }
        Ending::Interrupted => {
            let message = "terminal: the command was ended because the cell or the kernel ended";
            (INTERRUPTED, Some(ToolFailure::new("interrupted", message)))
        }
        Ending::TimedOut => {
            let message = format!(
                "terminal: the command was ended after {} s, {}; this is final, it is not tried \
                 again, and 'output' holds what it printed so far",
                seconds(limit.length),
                limit.name
            );
            (TIMED_OUT, Some(ToolFailure::new("timeout", message)))
        }
    };
    let mut result = ToolResult::new();
    result.insert("output".to_owned(), Value::String(output.text));
    result.insert("exit_code".to_owned(), Value::from(exit_code));
    result.insert("truncated".to_owned(), Value::Bool(output.omitted > 0));
    if let Some(failure) = failure {
        failure.add_to(&mut result);
    }
    result
}

/// Seconds for people: at most one decimal, unless it is less than a second.
fn seconds(duration: Duration) -> f64 {
    let seconds = duration.as_secs_f64();
    let scale = if seconds < 1.0 { 1000.0 } else { 10.0 };
    (seconds * scale).round() / scale
}
