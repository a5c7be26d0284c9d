//! The house: imports go down the list of rooms only, doors hold no logic, files have one job.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, top to bottom. A room may use those below it and its own.
const ROOMS: [&str; 24] = [
    "main",
    "lib",
    "cli",
    "client",
    "server",
    "check",
    "bridge",
    "frontends",
    "session",
    "execution",
    "tools",
    "kernel",
    "provisioner",
    "environment",
    "jupyter",
    "telemetry",
    "output",
    "process",
    "python_source",
    "folders",
    "config",
    "error",
    "ids",
    "words",
];

/// Rooms that do not know each other although the list would let them.
const STRANGERS: [(&str, &str); 3] = [
    ("tools", "kernel"),
    ("jupyter", "process"),
    ("output", "process"),
];

/// Lines of a file beyond which it has more than one job. Tests beside code are not counted.
const MAX_LINES: usize = 450;

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn room_of(path: &Path) -> String {
    let inside = path
        .strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .unwrap();
    let first = inside
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

fn level(room: &str) -> usize {
    ROOMS
        .iter()
        .position(|it| *it == room)
        .unwrap_or_else(|| panic!("room {room} is not in the list of rooms"))
}

/// The rooms that a line names as `crate::ROOM`.
fn uses(line: &str) -> Vec<String> {
    line.split("crate::")
        .skip(1)
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect()
        })
        .filter(|room: &String| !room.is_empty())
        .collect()
}

#[test]
fn imports_go_down_only() {
    let mut wrong = Vec::new();
    for path in sources() {
        let room = room_of(&path);
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for used in uses(line) {
                let up = level(&used) < level(&room);
                let stranger = STRANGERS.contains(&(room.as_str(), used.as_str()));
                if up || stranger {
                    wrong.push(format!(
                        "{}:{}: {}",
                        path.display(),
                        number + 1,
                        line.trim()
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports that run up:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn doors_hold_documentation_and_names_only() {
    for path in sources().iter().filter(|path| path.ends_with("mod.rs")) {
        let text = fs::read_to_string(path).unwrap();
        assert!(
            text.starts_with("//! "),
            "{} does not say what the room is",
            path.display()
        );
        for keyword in ["fn ", "struct ", "enum ", "impl ", "::*"] {
            let found = text
                .lines()
                .find(|line| !line.starts_with("//") && line.contains(keyword));
            assert!(
                found.is_none(),
                "{}: {}",
                path.display(),
                found.unwrap_or_default()
            );
        }
    }
}

#[test]
fn files_have_one_job() {
    let python = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("python"));
    let python = python.unwrap().flatten().map(|entry| entry.path());
    let mut long = Vec::new();
    for path in sources()
        .into_iter()
        .chain(python.filter(|path| path.is_file()))
    {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .take_while(|line| *line != "mod tests {")
            .count();
        if lines > MAX_LINES && !path.to_string_lossy().ends_with("tests.rs") {
            long.push(format!("{} has {lines} lines", path.display()));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn only_the_room_of_processes_starts_and_signals() {
    for path in sources() {
        let room = room_of(&path);
        let text = fs::read_to_string(&path).unwrap();
        for word in ["Command::new", "pidfd_send_signal", "kill_process"] {
            let allowed = room == "process" || path.to_string_lossy().ends_with("tests.rs");
            assert!(
                allowed || !text.contains(word),
                "{} says {word}",
                path.display()
            );
        }
    }
}

#[test]
fn every_claim_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let claims = fs::read_to_string(root.join("tests/contract.md")).unwrap();
    let mut known = String::new();
    let mut folders = vec![
        root.join("src"),
        root.join("tests/integration"),
        root.join("tests/python"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                known.push_str(&fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut rows = 0;
    let mut missing = Vec::new();
    for line in claims
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| claim"))
    {
        let tests = line
            .trim_end_matches(" |")
            .rsplit("| ")
            .next()
            .unwrap_or_default();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let is_reasoned = tests.trim_start().starts_with("no test: ");
        assert!(!names.is_empty() || is_reasoned, "no test is named: {line}");
        rows += 1;
        for name in names {
            let function = name.rsplit("::").next().unwrap_or(name);
            if !known.contains(&format!("fn {function}(")) {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(
        missing.is_empty(),
        "tests/contract.md names tests that do not exist: {missing:?}"
    );
    assert!(rows > 50, "only {rows} claims were read");
}
