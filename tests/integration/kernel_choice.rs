//! What `warmcell kernel` makes of what a front end gives it: which Python, which variables, and words
//! that are not for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;
use warmcell::bridge::read_connection;
use warmcell::jupyter::Kernelspec;

use crate::command_kit::Running;
use crate::kernel_kit::FrontEnd;
use crate::lifecycle_support::signal;
use crate::support::{Place, finish, python, text};

/// A virtual environment; its Python.
fn environment(place: &Place, name: &str) -> PathBuf {
    let folder = place.work().join(name);
    let mut making = place.command(python().to_str().unwrap());
    making.args(["-m", "venv", "--without-pip"]).arg(&folder);
    let made = finish(&mut making);
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder.join("bin/python")
}

/// A kernel that was started as a command says, and can be connected to.
struct Started {
    kernel: Running,
    /// What it has said up to then.
    said: String,
    front_end: FrontEnd,
}

fn start(place: &Place, change: impl FnOnce(&mut Command)) -> Started {
    let file = place.work().join("k.json");
    let mut command = place.warmcell(&["kernel", "-f"]);
    command.arg(&file).stderr(Stdio::piped());
    change(&mut command);
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("--existing") {
        let read = stderr.read_line(&mut said).unwrap();
        assert!(read > 0, "it has ended: {said}");
    }
    let connection = read_connection(&file).unwrap().unwrap();
    Started {
        kernel: Running(child),
        said,
        front_end: FrontEnd::new(&connection, "a"),
    }
}

impl Started {
    async fn end(mut self) {
        signal(self.kernel.pid(), Signal::TERM);
        assert_eq!(self.kernel.ended().await, Some(0));
    }
}

const WHICH: &str = "import sys; print(sys.executable, sys.prefix)";

fn told(python: &Path) -> String {
    let prefix = python.parent().unwrap().parent().unwrap();
    format!("{} {}\n", python.display(), prefix.display())
}

/// The front end is a program that runs in an environment which nobody has activated.
#[tokio::test]
async fn without_an_environment_a_kernel_has_the_python_of_its_front_end() {
    let place = Place::new();
    let own = environment(&place, "own");
    let active = environment(&place, "active");
    let mut waiting = place.command(own.to_str().unwrap());
    let mut parent = Running::start(waiting.args(["-c", "import time; time.sleep(1000)"]));
    let number = parent.pid().to_string();
    let path = format!(
        "{}:{}",
        python().parent().unwrap().display(),
        place.environment()["PATH"]
    );

    let mut started = start(&place, |command| {
        command.env("PATH", &path).env("JPY_PARENT_PID", &number);
    });
    assert_eq!(started.front_end.run(WHICH).0, told(&own));
    started.end().await;

    // One that is active says which, and so does one that is named.
    let mut started = start(&place, |command| {
        command
            .env("VIRTUAL_ENV", active.ancestors().nth(2).unwrap())
            .env("JPY_PARENT_PID", &number);
    });
    assert_eq!(started.front_end.run(WHICH).0, told(&active));
    started.end().await;
    let mut started = start(&place, |command| {
        command
            .arg("--python")
            .arg(&active)
            .env("JPY_PARENT_PID", &number);
    });
    assert_eq!(started.front_end.run(WHICH).0, told(&active));
    started.end().await;

    signal(parent.pid(), Signal::KILL);
    parent.ended().await;
    // A front end that is no Python says nothing.
    let mut other = Running::start(place.command("/bin/sleep").arg("1000"));
    let mut started = start(&place, |command| {
        command
            .env("PATH", &path)
            .env("JPY_PARENT_PID", other.pid().to_string());
    });
    let found = started
        .front_end
        .run("import sys; print(sys.version_info[0])");
    assert_eq!(found.0, "3\n");
    started.end().await;
    signal(other.pid(), Signal::KILL);
    other.ended().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn words_that_are_not_for_a_kernel_are_ignored_and_told() {
    let place = Place::new();
    let mut started = start(&place, |command| {
        command.arg("--python").arg(python());
        command.args(["script.py", "--debug", "a\u{1b}b", "--python", "/x"]);
    });
    let (line, _) = started.said.split_once('\n').unwrap();
    assert!(
        line.starts_with("warmcell: ignored, ")
            && line.ends_with(": script.py --debug a\u{fffd}b --python /x"),
        "{line}"
    );
    assert_eq!(started.front_end.run("print(1)").0, "1\n");
    started.end().await;
    // Without a connection file a front end has not started it: then it is a mistake.
    for words in [
        &["kernel", "k.json"][..],
        &["kernel", "script.py", "-f", "k"],
    ] {
        let refused = finish(&mut place.warmcell(words));
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("--file"), "{refused:?}");
    }
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn what_a_kernelspec_sets_reaches_cells_and_credentials_do_not() {
    let place = Place::new();
    let folder = place.work().join("spec");
    fs::create_dir(&folder).unwrap();
    let spec = json!({ "argv": ["x"], "env": {
        "FOO": "fromspec", "MY_TOKEN": "t", "OPENAI_API_KEY": "s", "EMPTY": "",
    }});
    fs::write(folder.join("kernel.json"), spec.to_string()).unwrap();
    let mut started = start(&place, |command| {
        command.arg("--kernelspec").arg(&folder);
        command.arg("--python").arg(python());
        // As a front end puts it there.
        for (name, value) in spec["env"].as_object().unwrap() {
            command.env(name, value.as_str().unwrap());
        }
        command.env("OTHER", "x");
    });
    let code = "import os\nfor name in 'FOO', 'MY_TOKEN', 'OPENAI_API_KEY', 'EMPTY', 'OTHER':\n    \
                print(os.environ.get(name), end=' ')\nprint(terminal('echo $FOO')['output'].strip())";
    let (printed, status) = started.front_end.run(code);
    assert_eq!(
        (printed.as_str(), status.as_str()),
        ("fromspec t None  None fromspec\n", "ok")
    );
    let environ = fs::read(format!("/proc/{}/environ", started.kernel.pid())).unwrap();
    let environ = text(&environ);
    assert!(!environ.contains("OPENAI_API_KEY") && !environ.contains("OTHER="));
    started.end().await;
    place.assert_no_survivors().await;
}

/// Who starts a kernel by hand is told at once that it has no Python, and not that it can be connected
/// to; a front end is told by its first cell.
#[tokio::test]
async fn a_kernel_that_is_started_by_hand_without_a_python_ends_at_once() {
    let place = Place::new();
    let file = place.work().join("k.json");
    let words = ["kernel", "-f", "k.json", "--python", "/nope/py"];
    let refused = finish(&mut place.warmcell(&words));
    assert_eq!(refused.status.code(), Some(125));
    let said = text(&refused.stderr);
    assert!(
        said.contains("/nope/py") && !said.contains("--existing"),
        "{said}"
    );
    assert!(!file.exists());
    place.assert_no_survivors().await;
}

/// The kernelspec as it is installed, started by Jupyter's own code: its Python is that of the front
/// end, its variables arrive, and the words of `jupyter run` are no mistake.
#[tokio::test]
async fn jupyter_starts_an_installed_kernelspec_with_its_own_python() {
    let Some(suites) = crate::conformance::suites() else {
        return;
    };
    let place = Place::new();
    let installed = finish(&mut place.warmcell(&["kernelspec", "install"]));
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let said = text(&installed.stdout);
    assert!(
        said.contains("else the one in which the front end"),
        "{said}"
    );
    let file = place
        .work()
        .join(".local/share/jupyter/kernels/warmcell/kernel.json");
    let mut spec = Kernelspec::parse(&fs::read(&file).unwrap()).unwrap();
    spec.env.insert("FOO".to_owned(), "${HOME}/foo".to_owned());
    fs::write(&file, spec.to_json()).unwrap();
    let script = place.work().join("s.py");
    fs::write(
        &script,
        "import os, sys\nprint(sys.prefix, os.environ['FOO'])",
    )
    .unwrap();
    let mut running = place.command(suites.to_str().unwrap());
    running
        .args(["-m", "jupyter_client.runapp", "--kernel=warmcell", "s.py"])
        .current_dir(place.work())
        .env("JUPYTER_RUNTIME_DIR", place.work().join("runtime"));
    let output = tokio::task::spawn_blocking(move || finish(&mut running));
    let output = output.await.unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let prefix = suites.parent().unwrap().parent().unwrap();
    let foo = place.work().join("foo");
    assert!(
        out.contains(&format!("{} {}", prefix.display(), foo.display())),
        "{out} {err}"
    );
    assert!(err.contains("ignored") && err.contains("s.py"), "{err}");
    place.assert_no_survivors().await;
}
