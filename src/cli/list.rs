//! Sessions, shown to people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::streams;
use crate::client::{Found, Home};

/// Prints all sessions of a home with their managers; the exit code.
pub(super) async fn list(home: &Home, is_json: bool) -> io::Result<u8> {
    let managers = home.managers().await;
    let mut is_whole = true;
    for manager in &managers {
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
        vec![["SESSION", "STATE", "CELLS", "KERNEL", "PYTHON", "MANAGER"].map(str::to_owned)];
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
    let text = |path: &str| session.pointer(path).map_or_else(String::new, shown);
    let manager = format!("{} {}", text("/manager/kind"), text("/manager/pid"));
    [
        text("/name"),
        text("/state"),
        text("/cells"),
        text("/kernel_pid"),
        text("/python/version"),
        manager,
    ]
}

/// A value as people write it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Text that a cell may have made up, without what a terminal would obey.
fn clean(text: &str) -> String {
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
    let text = |path: &str| session.pointer(path).map_or_else(String::new, shown);
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
                "{} in this kernel, {} in all, {} waiting; {} tool calls",
                text("/cells"),
                text("/cells_total"),
                text("/waiting"),
                text("/tool_calls")
            ),
        ),
    ];
    if session.get("kernel_pid").is_some() {
        let kernel = format!(
            "process {}, number {} of the session, Python {} ({})",
            text("/kernel_pid"),
            text("/generation"),
            text("/python/version"),
            text("/python/executable")
        );
        facts.push(("kernel", kernel));
    }
    if let Some(running) = session.get("running") {
        let since = running.get("since").map_or_else(String::new, shown);
        let cell = running.get("cell").map_or_else(String::new, shown);
        facts.push(("running", format!("cell {cell} since {since}")));
    }
    let number = |path: &str| session.pointer(path).and_then(Value::as_u64);
    if let Some(bytes) = number("/usage/pss_bytes").or_else(|| number("/usage/rss_bytes")) {
        let usage = format!(
            "{} in {} processes, {:.2} s of processor time",
            bytes_in_words(bytes),
            text("/usage/processes"),
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
        let text = |key: &str| variable.get(key).map_or_else(String::new, shown);
        let size = variable.get("size").and_then(Value::as_u64);
        [
            format!("  {}", text("name")),
            text("type"),
            size.map_or_else(String::new, bytes_in_words),
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

/// An event in one line.
pub(super) fn event_line(event: &Value) -> String {
    let text = |path: &str| event.pointer(path).map_or_else(String::new, shown);
    let cell = event
        .get("cell")
        .map_or_else(String::new, |cell| format!(" cell {cell}"));
    let detail = match text("/kind").as_str() {
        "kernel_state" => format!("{} -> {} ({})", text("/from"), text("/to"), text("/reason")),
        "stdout" | "stderr" => format!(
            "{:?}",
            event
                .get("text")
                .and_then(Value::as_str)
                .unwrap_or_default()
        ),
        "result" => text("/data"),
        "tool_started" => format!("{} {}", text("/id"), text("/tool")),
        "tool_finished" => format!("{} {} ms, ok: {}", text("/id"), text("/ms"), text("/ok")),
        "cell_finished" => text("/outcome/status"),
        "kernel_exited" => format!("code {} signal {}", text("/code"), text("/signal")),
        "lagged" => format!("{} events are missing here", text("/missed")),
        _ => String::new(),
    };
    format!(
        "{} {:>5}{cell} {} {detail}",
        text("/at"),
        text("/seq"),
        text("/kind")
    )
    .trim_end()
    .to_owned()
}
