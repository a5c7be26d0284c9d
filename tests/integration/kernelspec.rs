//! `warmcell kernelspec`: what is listed, and what is installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use warmcell::jupyter::Kernelspec;

use crate::support::{Place, finish, python, text};

/// What a command has said, on stdout and stderr, if it ended with this code.
fn said(command: &mut Command, code: i32) -> (String, String) {
    let output = finish(command);
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said:?}");
    said
}

/// Something that counts as an environment; the folder of its kernelspecs.
fn environment(place: &Place, name: &str) -> (PathBuf, PathBuf) {
    let prefix = place.work().join(name);
    fs::create_dir_all(prefix.join("bin")).unwrap();
    symlink(python(), prefix.join("bin/python3")).unwrap();
    let kernels = prefix.join("share/jupyter/kernels");
    (prefix, kernels)
}

fn spec(folder: &Path) -> Kernelspec {
    Kernelspec::parse(&fs::read(folder.join("kernel.json")).unwrap()).unwrap()
}

/// Writes the kernelspec of another program.
fn foreign(kernels: &Path, name: &str, argv: &[&str]) -> PathBuf {
    let folder = kernels.join(name);
    fs::create_dir_all(&folder).unwrap();
    let mut argv = argv.to_vec();
    if !argv.contains(&"{connection_file}") {
        argv.push("{connection_file}");
    }
    let text = json!({ "argv": argv }).to_string();
    fs::write(folder.join("kernel.json"), text).unwrap();
    folder
}

#[test]
fn a_kernelspec_is_installed_where_it_says_and_listed() {
    let place = Place::new();
    let data = place.work().join(".local/share/jupyter/kernels");
    let output = finish(&mut place.warmcell(&["kernelspec", "install"]));
    let said = text(&output.stdout);
    let folder = data.join("warmcell");
    assert!(said.contains(folder.to_str().unwrap()), "{said}");
    let spec = Kernelspec::parse(&fs::read(folder.join("kernel.json")).unwrap()).unwrap();
    assert_eq!(
        spec.argv,
        [
            env!("CARGO_BIN_EXE_warmcell"),
            "kernel",
            "-f",
            "{connection_file}",
            "--kernelspec",
            "{resource_dir}"
        ]
    );

    // Again, with other words, at another place, and never over what is not ours.
    let other = place.work().join("prefix");
    let named = [
        "kernelspec",
        "install",
        "--prefix",
        "prefix",
        "--name",
        "Mine",
        "--display-name",
        "My Python",
        "--python",
    ];
    let mut command = place.warmcell(&named);
    assert!(finish(command.arg(python())).status.success());
    let own = other.join("share/jupyter/kernels/Mine/kernel.json");
    let spec = Kernelspec::parse(&fs::read(&own).unwrap()).unwrap();
    assert_eq!(spec.display_name, "My Python");
    assert_eq!(spec.argv[7], python().to_str().unwrap());
    let foreign = r#"{"argv":["/bin/true","{connection_file}"]}"#;
    fs::write(&own, foreign).unwrap();
    let output = finish(&mut place.warmcell(&named[..6]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not ours"), "{output:?}");
    assert_eq!(fs::read_to_string(&own).unwrap(), foreign);
    let output = finish(&mut place.warmcell(&["kernelspec", "install", "--name", "a/b"]));
    assert_eq!(output.status.code(), Some(2));

    fs::create_dir_all(data.join("broken")).unwrap();
    fs::write(data.join("broken/kernel.json"), "{").unwrap();
    let path = other.join("share/jupyter");
    let listed = |arguments: &[&str]| finish(place.warmcell(arguments).env("JUPYTER_PATH", &path));
    let output = listed(&["kernelspec", "list"]);
    assert!(output.status.success());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.starts_with("Available kernels:\n"), "{out}");
    assert!(
        out.contains("  mine        ") && out.contains("  warmcell    "),
        "{out}"
    );
    assert!(
        err.contains("broken/kernel.json: kernel.json is no JSON object"),
        "{err}"
    );
    let output = listed(&["kernelspec", "list", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["kernelspecs"]["warmcell"]["spec"]["language"], "python");
    assert_eq!(all["problems"].as_array().unwrap().len(), 1);
    assert!(output.stderr.is_empty());
}

#[test]
fn in_an_environment_kernels_have_its_python_and_that_is_told() {
    let place = Place::new();
    let (prefix, kernels) = environment(&place, "env");
    let pinned = prefix.join("bin/python3");
    let pinned = pinned.to_str().unwrap();
    let python_of = |folder: &Path| spec(folder).argv[6..].to_vec();

    let mut install = place.warmcell(&["kernelspec", "install", "--sys-prefix"]);
    let (out, err) = said(install.env("VIRTUAL_ENV", &prefix), 0);
    assert_eq!(err, "");
    let folder = kernels.join("warmcell");
    let begin = format!(
        "kernelspec warmcell is in {}; its kernels run {pinned} (Python 3.",
        folder.display()
    );
    assert!(out.starts_with(&begin), "{out}");
    assert_eq!(python_of(&folder), ["--python", pinned]);

    let words = ["kernelspec", "install", "--prefix", "env", "--name", "p"];
    let (out, err) = said(&mut place.warmcell(&words), 0);
    assert!(out.contains(pinned), "{out}");
    // Nobody looks there.
    let path = format!("JUPYTER_PATH={}", prefix.join("share/jupyter").display());
    assert!(err.contains(&path), "{err}");
    assert_eq!(python_of(&kernels.join("p")), ["--python", pinned]);
    // A place without a Python fixes none, and neither does the user's.
    let (out, _) = said(
        &mut place.warmcell(&["kernelspec", "install", "--prefix", "empty"]),
        0,
    );
    assert!(out.contains("environment that is active"), "{out}");
    let empty = place.work().join("empty/share/jupyter/kernels/warmcell");
    assert_eq!(python_of(&empty), [""; 0]);
    let mut install = place.warmcell(&["kernelspec", "install", "--user", "--name", "u"]);
    let (out, err) = said(install.env("VIRTUAL_ENV", &prefix), 0);
    assert!(out.contains("environment that is active"), "{out}");
    assert_eq!(err, "");

    // Without an active environment it is that of python3 on PATH, also where a shim stands there.
    let shims = place.work().join("shims");
    fs::create_dir(&shims).unwrap();
    let (other, _) = environment(&place, "other");
    fs::write(
        other.join("pyvenv.cfg"),
        format!("home = {}\n", python().parent().unwrap().display()),
    )
    .unwrap();
    let shim = shims.join("python3");
    let program = other.join("bin/python3");
    fs::write(
        &shim,
        format!("#!/bin/sh\nexec {} \"$@\"\n", program.display()),
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&shim, mode).unwrap();
    let path = format!("{}:{}", shims.display(), place.environment()["PATH"]);
    let mut install = place.warmcell(&["kernelspec", "install", "--sys-prefix", "--name", "s"]);
    let (out, _) = said(install.env("PATH", path), 0);
    let folder = other.join("share/jupyter/kernels/s");
    assert!(out.contains(folder.to_str().unwrap()), "{out}");
    assert_eq!(python_of(&folder), ["--python", program.to_str().unwrap()]);
}

#[test]
fn nothing_is_installed_with_a_python_that_will_not_do() {
    let place = Place::new();
    let data = place.work().join(".local/share/jupyter");
    for (program, code) in [("/nope/python", 125), ("/bin/ls", 125), ("no-such", 125)] {
        let words = ["kernelspec", "install", "--python", program];
        let (out, err) = said(&mut place.warmcell(&words), code);
        assert!(out.is_empty() && err.contains(program), "{err}");
    }
    assert!(!data.exists());
    let nowhere = place.work().join("nosuch");
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let mut install = place.warmcell(&["kernelspec", "install", "--sys-prefix"]);
        let (_, err) = said(install.env(variable, &nowhere), 2);
        assert!(
            err.contains(variable) && err.contains("nosuch") && err.contains("--user"),
            "{err}"
        );
    }
    assert!(!nowhere.exists());
}

#[test]
fn a_kernelspec_that_is_hidden_by_another_is_told() {
    let place = Place::new();
    let (prefix, kernels) = environment(&place, "env");
    let hiding = foreign(&kernels, "Python3", &["/bin/true"]);
    let words = ["kernelspec", "install", "--name", "python3"];
    let (out, err) = said(place.warmcell(&words).env("VIRTUAL_ENV", &prefix), 0);
    assert!(
        out.contains(".local/share/jupyter/kernels/python3"),
        "{out}"
    );
    assert!(
        err.contains(hiding.to_str().unwrap()) && err.contains("first"),
        "{err}"
    );
    // Where the environment is not active nothing hides it.
    let (_, err) = said(&mut place.warmcell(&words), 0);
    assert_eq!(err, "");
}

#[test]
fn own_kernelspecs_are_removed_and_others_are_not() {
    let place = Place::new();
    let (prefix, kernels) = environment(&place, "env");
    let user = place.work().join(".local/share/jupyter/kernels");
    let install = |words: &[&str]| {
        let mut command = place.warmcell(&["kernelspec", "install"]);
        said(command.args(words).env("VIRTUAL_ENV", &prefix), 0);
    };
    let remove = |words: &[&str], code: i32| {
        let mut command = place.warmcell(&["kernelspec", "remove"]);
        said(command.args(words).env("VIRTUAL_ENV", &prefix), code)
    };
    install(&[]);
    install(&["--sys-prefix"]);
    let (_, err) = remove(&["warmcell"], 2);
    assert!(
        err.contains(user.to_str().unwrap()) && err.contains("--sys-prefix"),
        "{err}"
    );
    remove(&["WarmCell", "--sys-prefix"], 0);
    assert!(!kernels.join("warmcell").exists());
    // What others have put beside it stays.
    fs::write(user.join("warmcell/logo.svg"), "").unwrap();
    let (out, _) = remove(&["warmcell"], 0);
    assert!(out.contains(user.to_str().unwrap()), "{out}");
    let left: Vec<_> = fs::read_dir(user.join("warmcell")).unwrap().collect();
    assert_eq!(left.len(), 1);
    let (_, err) = remove(&["warmcell"], 2);
    assert!(err.contains("there is no kernelspec warmcell"), "{err}");

    // One that is hidden is found; one that is not ours is left as it is.
    let other = foreign(&kernels, "python3", &["/bin/true"]);
    let (_, err) = remove(&["python3"], 2);
    assert!(err.contains("is not ours"), "{err}");
    assert!(other.join("kernel.json").exists());
    install(&["--name", "python3"]);
    remove(&["python3"], 0);
    assert!(!user.join("python3").exists() && other.join("kernel.json").exists());
    let (_, err) = remove(&["../x"], 2);
    assert!(err.contains("no name of a kernelspec"), "{err}");
}

#[test]
fn a_kernelspec_whose_program_is_missing_is_listed_with_what_is_wrong() {
    let place = Place::new();
    let kernels = place.work().join(".local/share/jupyter/kernels");
    foreign(&kernels, "gone", &["/nope/kern", "{connection_file}"]);
    let elsewhere = foreign(&kernels, "elsewhere", &[]);
    let on_a_path_of_its_own =
        json!({ "argv": ["kern", "{connection_file}"], "env": { "PATH": "/opt/kern" } });
    fs::write(
        elsewhere.join("kernel.json"),
        on_a_path_of_its_own.to_string(),
    )
    .unwrap();
    foreign(&kernels, "no-program", &["/etc/passwd"]);
    foreign(&kernels, "unknown", &["no-such-program"]);
    for (name, program) in [
        ("fine", "sh"),
        ("python", "python3.999"),
        ("own", "{prefix}/k"),
        ("later", "./k"),
    ] {
        foreign(&kernels, name, &[program]);
    }
    let said_of = |words: &[&str]| said(&mut place.warmcell(words), 0);
    let ours = ["kernelspec", "install", "--name", "ours", "--python"];
    let (prefix, _) = environment(&place, "env");
    let program = prefix.join("bin/python3");
    said(place.warmcell(&ours).arg(&program), 0);
    fs::remove_file(&program).unwrap();
    let (out, err) = said_of(&["kernelspec", "list"]);
    for name in [
        "gone",
        "no-program",
        "unknown",
        "fine",
        "python",
        "own",
        "ours",
    ] {
        assert!(out.contains(&format!("  {name} ")), "{name}: {out}");
    }
    for sentence in [
        "gone/kernel.json: its program /nope/kern is not there",
        "no-program/kernel.json: its program /etc/passwd cannot be run",
        "unknown/kernel.json: its program no-such-program is not on PATH",
        "ours/kernel.json: the Python that it names, ",
    ] {
        assert!(err.contains(sentence), "{sentence}: {err}");
    }
    assert_eq!(err.lines().count(), 4, "{err}");
    // Where a kernel is asked for that cannot be had, those are not among what there is.
    let (_, err) = said(&mut place.warmcell(&["exec", "--kernel", "nope", "1"]), 2);
    assert!(
        err.contains("there are elsewhere, fine, later, own, python ("),
        "{err}"
    );
    let (_, err) = said(&mut place.warmcell(&["exec", "--kernel", "gone", "1"]), 125);
    assert!(err.contains("/nope/kern"), "{err}");
}

#[test]
fn a_name_that_differs_in_case_only_is_the_same_and_a_display_name_can_be_shown() {
    let place = Place::new();
    let install = |words: &[&str], code| {
        let words: Vec<&str> = [&["kernelspec", "install"], words].concat();
        said(&mut place.warmcell(&words), code)
    };
    install(&["--name", "Wcx"], 0);
    install(&["--name", "Wcx"], 0);
    let (_, err) = install(&["--name", "WCX"], 2);
    assert!(err.contains("names count without case"), "{err}");
    assert!(err.contains("--name Wcx"), "{err}");
    for name in ["", "  ", "a\u{1b}[31mred", "a\nb"] {
        let (_, err) = install(&["--display-name", name], 2);
        assert!(err.contains("--display-name"), "{err}");
        assert!(!err.trim_end().contains(['\u{1b}', '\n']), "{err:?}");
    }
}
