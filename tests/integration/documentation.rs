//! The documentation tells the truth: what it shows is run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, SAFETY, finish, python, text};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The commands of a page's `console` blocks, with what they print.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((command, output))) => match line.strip_prefix("> ") {
                    Some(more) => command.extend(["\n", more]),
                    None => output.extend([line, "\n"]),
                },
                (None, None) => panic!("output before a command: {line}"),
            },
            (false, _) => {}
        }
    }
    found
}

/// Runs a command of the documentation in a copy of what it needs, as a shell would.
fn run(place: &Place, command: &str) -> String {
    let program = env!("CARGO_BIN_EXE_warmcell");
    let command = command.replace("cargo run --release --quiet --", program);
    let command = match command.strip_prefix("warmcell ") {
        Some(arguments) => format!("{program} {arguments}"),
        None => command.replace("| warmcell ", &format!("| {program} ")),
    };
    let mut shell = place.command("/bin/sh");
    let python = python().parent().unwrap().display().to_string();
    let path = format!("{python}:{}", place.environment().get("PATH").unwrap());
    shell
        .args(["-c", &command])
        .env("PATH", path)
        .current_dir(place.work());
    let output = finish(&mut shell);
    text(&output.stdout) + &text(&output.stderr)
}

#[tokio::test]
async fn examples_of_the_readme_print_what_it_says() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let place = Place::new();
    for name in ["LICENSE-MIT", "Cargo.toml"] {
        fs::copy(root().join(name), place.work().join(name)).unwrap();
    }
    for name in ["src", "examples"] {
        std::os::unix::fs::symlink(root().join(name), place.work().join(name)).unwrap();
    }
    let mut ran = 0;
    for (command, expected) in examples(&page) {
        if command.starts_with("cargo test") || command.starts_with("cargo run --example") {
            continue;
        }
        assert_eq!(run(&place, &command), expected, "$ {command}");
        ran += 1;
    }
    assert!(ran >= 4, "only {ran} examples were found");
    place.assert_no_survivors().await;
}

#[test]
fn the_readme_gives_the_two_commands() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let commands: Vec<String> = examples(&page)
        .into_iter()
        .map(|(command, _)| command)
        .collect();
    assert!(
        commands
            .iter()
            .any(|it| it.starts_with("cargo run --release")),
        "{commands:?}"
    );
    assert_eq!(
        commands
            .iter()
            .filter(|it| it.starts_with("cargo test"))
            .count(),
        1
    );
}

#[test]
fn files_that_the_documentation_names_exist() {
    for page in ["README.md", "ARCHITECTURE.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "python/", "tests/", "examples/", "fuzz/"]
                .iter()
                .any(|folder| name.starts_with(folder));
            let plain = !name.contains(['*', '{', ' ', '<']);
            assert!(
                !is_path || !plain || root().join(name).exists(),
                "{page} names {name}"
            );
        }
    }
}

/// The table of README.md is that of the code.
#[test]
fn every_key_of_the_configuration_is_documented() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let section = page.split("## Configuration").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let documented: Vec<&str> = rows.collect();
    let keys: Vec<String> = warmcell::config::keys()
        .iter()
        .map(|key| {
            let bad = if key.protects { "refused" } else { "warning" };
            let (name, default, must) = (key.name, key.default, key.must);
            format!("| `{name}` | {default} | {must} | {bad} |")
        })
        .collect();
    assert_eq!(documented, keys);
}

#[test]
fn every_dependency_says_what_for() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.contains("dependencies]")
            && let Some((name, _)) = line.split_once(" = ")
        {
            let told = architecture
                .lines()
                .any(|line| line.starts_with(&format!("| `{name}`")));
            assert!(told, "ARCHITECTURE.md does not say what {name} is for");
        }
    }
}

#[tokio::test]
async fn the_lifecycle_example_tells_what_is_lost() {
    let place = Place::new();
    let example = Path::new(env!("CARGO_BIN_EXE_warmcell")).with_file_name("examples/lifecycle");
    let mut command = place.command(example.to_str().unwrap());
    command
        .env("PYTHON", python())
        .env("TMPDIR", place.folder.path())
        .current_dir(place.work());
    let output = finish(&mut command);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for line in [
        "ZeroDivisionError: division by zero",
        "   state Kept, generation 1",
        "[new kernel: the previous one was lost (timeout 0.2 s); gone: radius and math]",
        "[new kernel: the previous one was lost (reset); gone: radius]",
        "   state Fresh, generation 3",
    ] {
        assert!(shown.contains(line), "{line:?} is missing in\n{shown}");
    }
    assert!(SAFETY.as_secs() > 0);
    place.assert_no_survivors().await;
}
