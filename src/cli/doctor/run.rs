//! All checks, and how they are printed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::runtime;

use super::finding::{Finding, State};
use super::{managers, places, python, system};
use crate::cli::{exit, streams, surroundings};
use crate::config::{ConfigurationFile, Settings};
use crate::output::strip;
use crate::process::hide_memory;
use crate::server::VERSION;
use crate::words::counted;

const HELP: &str = "\
Exit codes: 0 if cells can run as promised, 1 if a check failed; what fails names the command that mends it.";

/// The arguments of `warmcell doctor`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(in crate::cli) struct DoctorArguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs it; the exit code.
pub(in crate::cli) fn main(arguments: &DoctorArguments) -> ExitCode {
    hide_memory();
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let findings = match runtime {
        Ok(runtime) => {
            let findings = runtime.block_on(all());
            runtime.shutdown_timeout(Duration::from_millis(100));
            findings
        }
        Err(error) => vec![Finding::failed(
            "system",
            format!("no event loop can be had: {error}"),
            "raise the limit on open files (ulimit -n 1024)",
        )],
    };
    match print(&findings, arguments.json) {
        Ok(()) => ExitCode::from(u8::from(failed(&findings) > 0)),
        Err(error) => ExitCode::from(exit::unwritten(&error)),
    }
}

async fn all() -> Vec<Finding> {
    let file = surroundings::configuration();
    let configuration = file.configuration();
    let settings = surroundings::configured_settings(&configuration.values);
    let mut findings = vec![
        Finding::ok("version", format!("warmcell {VERSION}")).with(
            Vec::new(),
            json!({ "warmcell": VERSION, "messages": "5.4" }),
        ),
        system::platform(),
    ];
    let (python, managers) = tokio::join!(python::check(&settings), managers::check());
    findings.extend(python);
    findings.push(configured(&file));
    findings.push(places::home(&settings.home));
    findings.push(places::runtime(&settings));
    findings.push(managers);
    findings.push(limits(&settings));
    findings.push(system::protection());
    findings.push(system::descriptors());
    findings.push(system::sandbox());
    findings.push(system::backends());
    findings
}

/// What the configuration says that it should not.
fn configured(file: &ConfigurationFile) -> Finding {
    let problems = &file.configuration().problems;
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let path = surroundings::settings().home.join("config.yaml");
    let path = path.display();
    let finding = if let Some(refusal) = surroundings::refusal(file) {
        Finding::failed(
            "config",
            refusal,
            format!("mend {path}, or the variable that is named"),
        )
    } else if lines.is_empty() {
        Finding::ok(
            "config",
            format!("{path} and WARMCELL_* hold nothing that is wrong"),
        )
    } else {
        let count = counted(lines.len() as u64, "value");
        Finding::note(
            "config",
            format!("{count} not as it should be; defaults are in force"),
        )
        .mended_by(format!("mend {path}, or the variable that is named"))
    };
    let data = json!({ "path": path.to_string(), "problems": lines });
    finding.with(lines, data)
}

/// The limits of a cell that names none.
fn limits(settings: &Settings) -> Finding {
    let idle = settings
        .kernel_idle_timeout
        .map_or(0.0, |it| it.as_secs_f64());
    let data = json!({
        "timeout": settings.limits.timeout.as_secs_f64(),
        "max_tool_calls": settings.limits.max_tool_calls,
        "max_stdout_bytes": settings.max_stdout_bytes,
        "max_stderr_bytes": settings.max_stderr_bytes,
        "terminal_timeout": settings.terminal_timeout.as_secs_f64(),
        "interrupt_grace": settings.interrupt_grace.as_secs_f64(),
        "kernel_idle_timeout": idle,
    });
    let line = data.as_object().map(|limits| {
        let limits = limits.iter().map(|(name, value)| format!("{name} {value}"));
        limits.collect::<Vec<_>>().join(", ")
    });
    Finding::ok("limits", line.unwrap_or_default()).with(Vec::new(), data)
}

fn failed(findings: &[Finding]) -> u64 {
    findings
        .iter()
        .filter(|it| it.state == State::Failed)
        .count() as u64
}

fn print(findings: &[Finding], is_json: bool) -> io::Result<()> {
    let mut stdout = streams::stdout();
    let count = failed(findings);
    if is_json {
        return writeln!(
            stdout,
            "{}",
            json!({ "ok": count == 0, "checks": findings })
        );
    }
    for finding in findings {
        stdout.write_all(&strip(finding.lines().as_bytes()))?;
    }
    match count {
        0 => writeln!(stdout, "cells can run"),
        _ => writeln!(stdout, "{} failed", counted(count, "check")),
    }?;
    stdout.flush()
}
