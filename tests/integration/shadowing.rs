//! Files of the user's that bear the names of what we import: kernels work, cells see the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{Place, finish, pythons, text};
use crate::tools_kit::oldest_and_newest;

/// Every module that our Python imports, at whatever moment.
fn imported() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = ["asyncio", "json", "opcode", "re", "tokenize", "_weakref"]
        .map(str::to_owned)
        .into();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    for entry in fs::read_dir(folder).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["import" | "from", name, ..] = words[..] {
                names.insert(name.split('.').next().unwrap().to_owned());
            }
            if line.starts_with("_LATER = ") {
                names.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
    }
    for ours in [
        "",
        "_warmcell",
        "__future__",
        "sys",
        "a",
        "the",
        "cells",
        "where",
    ] {
        names.remove(ours);
    }
    assert!(names.len() > 40 && names.contains("struct"), "{names:?}");
    names
}

/// Says of each module whose it is.
fn program(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "for name in {names:?}:\n    try: print(name, getattr(__import__(name), 'marker', 'standard'))\n    except Exception as error: print(name, type(error).__name__)\n"
    )
}

/// Cells that use what they can of a kernel.
const USES: [(&str, &str); 4] = [
    ("1 + 1", "2"),
    (
        "def f(): 1/0\ntry: f()\nexcept ZeroDivisionError: print('caught')",
        "caught",
    ),
    ("async def g(): return 5\nawait g()", "5"),
    (
        "read_file('/proc/sys/kernel/ostype')['content'].strip(), json_parse('[1]')",
        "('Linux', [1])",
    ),
];

fn check(python: &Path, version: &str, names: &BTreeSet<String>, body: &str, in_path: bool) {
    let place = Place::new();
    let (work, folder) = (place.work(), place.folder.path().join("theirs"));
    let folder = if in_path { folder } else { work.clone() };
    fs::create_dir_all(&folder).unwrap();
    for name in names {
        fs::write(folder.join(format!("{name}.py")), body).unwrap();
    }
    let program = program(names);
    let script = place.home().join("program.py");
    // A program in the folder sees the files in it, as a cell does.
    let script = if in_path {
        script
    } else {
        folder.join("program.py")
    };
    fs::write(&script, &program).unwrap();
    let mut plain = place.command(python.to_str().unwrap());
    plain.arg(&script).current_dir(&work);
    if in_path {
        plain.env("PYTHONPATH", &folder);
    }
    let expected = finish(&mut plain);
    if !expected.status.success() {
        assert!(
            in_path && names.len() == 1,
            "{version}: {}",
            text(&expected.stderr)
        );
        // There is no Python to be had with this file in its way.
        return;
    }
    let mut cells = place.warmcell(&["exec", "--python"]);
    cells.arg(python);
    if in_path {
        cells.env("PYTHONPATH", &folder);
    }
    for (number, (code, _)) in USES.iter().enumerate() {
        let file = place.home().join(format!("{number}.py"));
        fs::write(&file, code).unwrap();
        cells.arg("-f").arg(file);
    }
    let file = place.home().join("program.py");
    fs::write(&file, &program).unwrap();
    cells.arg("-f").arg(file);
    let got = finish(&mut cells);
    let what = format!("{version}: {names:?}: {body}: {}", text(&got.stderr));
    let mut lines: Vec<String> = USES.iter().map(|(_, shown)| format!("{shown}\n")).collect();
    lines.push(text(&expected.stdout));
    assert_eq!(text(&got.stdout), lines.concat(), "{what}");
    let mut fails = place.warmcell(&["exec", "--python"]);
    fails
        .arg(python)
        .arg(format!("{program}\ndef f():\n    1/0  # the line\nf()"));
    if in_path {
        fails.env("PYTHONPATH", &folder);
    }
    let got = finish(&mut fails);
    let what = format!("{version}: {names:?}: {body}");
    assert_eq!(text(&got.stdout), text(&expected.stdout), "{what}");
    let told = text(&got.stderr);
    assert!(told.contains("    1/0  # the line\n"), "{what}: {told}");
    assert!(
        told.contains("ZeroDivisionError: division by zero"),
        "{what}: {told}"
    );
}

/// What a bare interpreter has loaded when its own code begins.
fn bare(python: &Path) -> BTreeSet<String> {
    let place = Place::new();
    let mut command = place.command(python.to_str().unwrap());
    let script = place.home().join("bare.py");
    fs::write(&script, "import sys; print(*sys.modules)").unwrap();
    let loaded = text(&finish(command.arg(&script)).stdout);
    loaded.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_pythonpath_and_a_directory_full_of_our_modules_names() {
    std::thread::scope(|scope| {
        for (version, python) in pythons() {
            scope.spawn(move || {
                // What the start itself needs is tried one by one below.
                let mut names = imported();
                let bare = bare(python);
                names.retain(|name| !bare.contains(name));
                for body in ["marker = 'theirs'", "raise ValueError('theirs')"] {
                    for in_path in [true, false] {
                        check(python, version, &names, body, in_path);
                    }
                }
            });
        }
    });
}

#[test]
fn a_pythonpath_with_what_the_start_of_python_loads() {
    for (version, python) in oldest_and_newest() {
        let bare = bare(python);
        for name in imported().into_iter().filter(|name| bare.contains(name)) {
            let names = BTreeSet::from([name]);
            check(python, version, &names, "marker = 'theirs'", true);
        }
    }
}
