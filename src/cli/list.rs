//! Sessions, shown to people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::streams;
use crate::client::Found;
use crate::words::counted;

/// What stands for nothing.
const NOTHING: &str = "-";

/// Prints all sessions of some managers; the exit code.
pub(super) fn list(managers: &[Found], is_json: bool) -> io::Result<u8> {
    let mut is_whole = true;
    for manager in managers {
        // One does not answer, or is of another version: which it is, and what to do, it says.
        if let Err(error) = &manager.sessions {
            drop(writeln!(io::stderr(), "warmcell: {error}"));
            is_whole = false;
        }
    }
    if is_json {
        let all: Vec<Value> = managers.iter().flat_map(sessions_of).collect();
        writeln!(streams::stdout(), "{}", Value::from(all))?;
        return Ok(0);
    }
    let mut rows =
        vec![["SESSION", "STATE", "CELLS", "KERNEL", "PROCESS", "MANAGER"].map(str::to_owned)];
    for manager in managers.iter().filter(|it| it.sessions.is_ok()) {
        rows.extend(sessions_of(manager).iter().map(row));
    }
    if rows.len() == 1 {
        if is_whole {
            drop(writeln!(io::stderr(), "warmcell: no sessions"));
        }
        return Ok(0);
    }
    print_table(&rows)?;
    Ok(0)
}

/// The sessions of a manager with what it says of itself; of one that does not say, that alone.
fn sessions_of(manager: &Found) -> Vec<Value> {
    let mut sessions = match &manager.sessions {
        Ok(sessions) => sessions.clone(),
        Err(error) => {
            let class = error.class();
            vec![json!({ "error": error.to_string(), "error_class": class })]
        }
    };
    let mut info = match &manager.info {
        Ok(info) => json!(info),
        Err(_) => json!({}),
    };
    if let Some(info) = info.as_object_mut() {
        info.entry("pid")
            .or_insert_with(|| json!(manager.client.pid()));
        info.entry("socket")
            .or_insert_with(|| json!(manager.client.socket()));
    }
    for session in &mut sessions {
        if let Some(session) = session.as_object_mut() {
            session.insert("manager".to_owned(), info.clone());
        }
    }
    sessions
}

fn row(session: &Value) -> [String; 6] {
    let text = |path: &str| shown(session.pointer(path));
    let manager = format!("{} {}", text("/manager/kind"), text("/manager/pid"));
    [
        text("/name"),
        text("/state"),
        text("/cells"),
        match (session.get("kernel"), text("/python/version")) {
            (Some(name), _) => shown(Some(name)),
            (None, version) if version == NOTHING => version,
            (None, version) => format!("Python {version}"),
        },
        text("/kernel_pid"),
        manager,
    ]
}

/// A value as people write it; what is not there, or empty, is a dash.
pub(super) fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => NOTHING.to_owned(),
        Some(Value::String(text)) if text.is_empty() => NOTHING.to_owned(),
        Some(Value::String(text)) => clean(text),
        Some(other) => other.to_string(),
    }
}

/// Text that a cell may have made up, without what a terminal would obey.
pub(super) fn clean(text: &str) -> String {
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(safe).collect()
}

fn print_table<const N: usize>(rows: &[[String; N]]) -> io::Result<()> {
    let mut out = streams::stdout();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.extend(format!("{cell:<width$}  ").chars());
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints one session.
pub(super) fn show(session: &Value) -> io::Result<()> {
    let text = |path: &str| shown(session.pointer(path));
    let number = |path: &str| {
        session
            .pointer(path)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let mut facts = vec![
        ("session", format!("{}, {}", text("/name"), text("/state"))),
        (
            "manager",
            format!(
                "{} {} ({})",
                text("/manager/kind"),
                text("/manager/pid"),
                text("/manager/owner")
            ),
        ),
        ("socket", text("/manager/socket")),
        ("opened", text("/opened_at")),
        ("directory", text("/cwd")),
        (
            "cells",
            format!(
                "{} in this kernel, {} in all, {} waiting; {}",
                text("/cells"),
                text("/cells_total"),
                text("/waiting"),
                counted(number("/tool_calls"), "tool call")
            ),
        ),
    ];
    if session.get("kernel_pid").is_some() {
        // The process of one that is not ours is the bridge in front of it.
        let (process, what) = if let Some(name) = session.get("kernel") {
            let name = shown(Some(name));
            ("bridge process", format!("the kernelspec {name}"))
        } else {
            let (version, executable) = (text("/python/version"), text("/python/executable"));
            ("process", format!("Python {version} ({executable})"))
        };
        let (pid, number) = (text("/kernel_pid"), text("/generation"));
        let kernel = format!("{process} {pid}, number {number} of the session, {what}");
        facts.push(("kernel", kernel));
    }
    if let Some(running) = session.get("running") {
        let [since, cell] = ["since", "cell"].map(|key| shown(running.get(key)));
        facts.push(("running", format!("cell {cell} since {since}")));
    }
    let bytes = |path: &str| session.pointer(path).and_then(Value::as_u64);
    if let Some(bytes) = bytes("/usage/pss_bytes").or_else(|| bytes("/usage/rss_bytes")) {
        let usage = format!(
            "{} in {}, {:.2} s of processor time",
            bytes_in_words(bytes),
            counted(number("/usage/processes"), "process"),
            session
                .pointer("/usage/cpu_seconds")
                .and_then(Value::as_f64)
                .unwrap_or_default()
        );
        facts.push(("memory", usage));
    }
    {
        let mut out = streams::stdout();
        for (name, fact) in facts {
            writeln!(out, "{name:<10} {fact}")?;
        }
        writeln!(out, "{:<10} {}", "variables", text("/variables/total"))?;
    }
    let variables = session.pointer("/variables/variables");
    let variables = variables.and_then(Value::as_array).into_iter().flatten();
    let mut rows = vec![["  NAME", "TYPE", "SIZE", "LENGTH"].map(str::to_owned)];
    rows.extend(variables.map(|variable| {
        let text = |key: &str| shown(variable.get(key));
        let size = variable.get("size").and_then(Value::as_u64);
        [
            format!("  {}", text("name")),
            text("type"),
            size.map_or_else(|| NOTHING.to_owned(), bytes_in_words),
            text("shape"),
        ]
    }));
    if rows.len() > 1 {
        print_table(&rows)?;
    }
    Ok(())
}

/// `12.3 MB`
fn bytes_in_words(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut number = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if number < 1000.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{number:.1} {unit}")
            };
        }
        number /= 1000.0;
    }
    format!("{number:.1} TB")
}
