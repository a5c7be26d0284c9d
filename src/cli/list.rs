//! Sessions, shown to people.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::client::{Found, Home};

/// Prints all sessions of a home with their managers; the exit code.
pub(super) async fn list(home: &Home, is_json: bool) -> io::Result<u8> {
    let managers = home.managers().await;
    if is_json {
        let all: Vec<Value> = managers.iter().flat_map(sessions_of).collect();
        writeln!(io::stdout(), "{}", Value::from(all))?;
        return Ok(0);
    }
    let mut rows =
        vec![["SESSION", "STATE", "CELLS", "KERNEL", "PYTHON", "MANAGER"].map(str::to_owned)];
    for manager in &managers {
        match &manager.sessions {
            Ok(_) => rows.extend(sessions_of(manager).iter().map(row)),
            // One of another version says which.
            Err(error) => drop(writeln!(io::stderr(), "warmcell: {error}")),
        }
    }
    if rows.len() == 1 {
        drop(writeln!(io::stderr(), "warmcell: no sessions"));
        return Ok(0);
    }
    print_table(&rows)?;
    Ok(0)
}

fn sessions_of(manager: &Found) -> Vec<Value> {
    let mut sessions = match &manager.sessions {
        Ok(sessions) => sessions.clone(),
        Err(_) => return Vec::new(),
    };
    let info = manager.info.as_ref().ok().map(|info| json!(info));
    for session in &mut sessions {
        if let Some(session) = session.as_object_mut() {
            session.insert("manager".to_owned(), json!(info));
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
    let mut out = io::stdout().lock();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints one session.
pub(super) fn show(session: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{session:#}")
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
