//! Foreign programs against our kernel: the suites and clients of Jupyter, from their packages.
//!
//! `tests/conformance/prepare` installs them. Where they are missing these tests say so loudly and
//! pass; with `WARMCELL_CONFORMANCE=required`, as in CI, they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::kernel_kit::Kernel;
use crate::support::{Place, finish, python, text};

/// The Python that has the suites; `None`, and a loud word, if it is not there.
pub fn suites() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/conformance");
    let python = folder.join("bin/python");
    if folder.join("key").exists() && python.exists() {
        return Some(python);
    }
    let sentence = "the conformance suites are missing; run tests/conformance/prepare";
    let required = std::env::var_os("WARMCELL_CONFORMANCE").is_some_and(|it| it == "required");
    assert!(!required, "{sentence}");
    eprintln!("NOT TESTED: {sentence}");
    None
}

/// A place in which Jupyter knows our kernel as python3, and each start of it leaves a line.
pub struct Jupyter {
    pub place: Place,
    starts: PathBuf,
    python: PathBuf,
}

impl Jupyter {
    fn new(suites: PathBuf) -> Self {
        Self::with_kernels_on(suites, python())
    }

    /// Its kernels run on another Python.
    pub fn with_kernels_on(suites: PathBuf, python: &Path) -> Self {
        let place = Place::new();
        let starts = place.work().join("starts");
        let folder = place.work().join("jupyter/kernels/python3");
        fs::create_dir_all(&folder).unwrap();
        let argv = [
            "/bin/sh",
            "-c",
            "echo started >> \"$0\"; exec \"$@\"",
            starts.to_str().unwrap(),
            env!("CARGO_BIN_EXE_warmcell"),
            "kernel",
            "-f",
            "{connection_file}",
            "--python",
            python.to_str().unwrap(),
        ];
        let spec = json!({
            "argv": argv,
            "display_name": "ours",
            "language": "python",
            "interrupt_mode": "message",
        });
        fs::write(folder.join("kernel.json"), spec.to_string()).unwrap();
        Self {
            place,
            starts,
            python: suites,
        }
    }

    /// Runs a program of the suites; what it says, if it succeeds.
    async fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || finish(&mut command));
        let output = output.await.unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{said}");
        said
    }

    /// A program of the suites.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(self.python.to_str().unwrap());
        command
            .args(arguments)
            .current_dir(self.place.work())
            .env("JUPYTER_PATH", self.place.work().join("jupyter"))
            .env("IPYTHONDIR", self.place.work().join("ipython"))
            .env("JUPYTER_RUNTIME_DIR", self.place.work().join("runtime"));
        command
    }

    pub fn starts(&self) -> usize {
        fs::read_to_string(&self.starts)
            .unwrap_or_default()
            .lines()
            .count()
    }
}

fn script(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    folder.join(name).display().to_string()
}

#[tokio::test]
async fn jupyter_kernel_test_is_green() {
    let Some(suites) = suites() else { return };
    let jupyter = Jupyter::new(suites);
    let said = jupyter
        .run(&[
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "filterwarnings=",
            &script("test_kernel_suite.py"),
        ])
        .await;
    // The one is the pager.
    assert!(said.contains("12 passed, 1 skipped"), "{said}");
    assert!(!said.contains("failed"), "{said}");
    // One for each class.
    assert_eq!(jupyter.starts(), 2, "another kernel was tested: {said}");
    jupyter.place.assert_no_survivors().await;
}

#[tokio::test]
async fn the_clients_of_jupyter_client_start_use_and_end_our_kernel() {
    let Some(suites) = suites() else { return };
    let jupyter = Jupyter::new(suites);
    let said = jupyter.run(&[&script("clients.py")]).await;
    assert!(said.contains("OK\n"), "{said}");
    // Each of two managers starts it, and starts it again.
    assert_eq!(jupyter.starts(), 4, "{said}");
    jupyter.place.assert_no_survivors().await;
}

#[tokio::test]
async fn the_console_attaches_to_a_kernel_and_leaves_it() {
    let Some(suites) = suites() else { return };
    let kernel = Kernel::start();
    let mut command = kernel.place.command(suites.to_str().unwrap());
    command
        .arg(script("console.py"))
        .arg(&kernel.file)
        .current_dir(kernel.place.work());
    let output = tokio::task::spawn_blocking(move || finish(&mut command));
    let output = output.await.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("OK\n"), "{said}");
    let mut front_end = kernel.front_end();
    assert_eq!(front_end.run("print(x)").0, "42\n");
    kernel.close().await;
}

#[tokio::test]
async fn kernelspecs_are_found_where_jupyter_finds_them() {
    let Some(suites) = suites() else { return };
    let prefix = suites.parent().unwrap().parent().unwrap().to_owned();
    let jupyter = Jupyter::new(suites);
    let work = jupyter.place.work();
    for (base, name) in [
        ("jupyter", "first"),
        (".local/share/jupyter", "First"),
        (".local/share/jupyter", "users"),
        (".ipython", "old"),
    ] {
        let folder = work.join(base).join("kernels").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("kernel.json"),
            r#"{"argv":["x"],"display_name":"x","language":"y"}"#,
        )
        .unwrap();
    }
    let told = |said: &str| -> Vec<(String, String)> {
        let start = said.find('{').unwrap();
        let all: Value = serde_json::from_str(said.split_at(start).1.trim()).unwrap();
        let specs = all["kernelspecs"].as_object().unwrap().iter();
        let mut specs: Vec<(String, String)> = specs
            .map(|(name, it)| {
                let folder = it["resource_dir"].as_str().unwrap();
                (name.clone(), folder.to_owned())
            })
            .collect();
        specs.sort();
        specs
    };
    let list = ["kernelspec", "list", "--json"];
    let script = format!(
        "import os; os.environ.pop('IPYTHONDIR'); os.environ['VIRTUAL_ENV'] = {:?}; \
         from jupyter_client.kernelspecapp import KernelSpecApp; KernelSpecApp.launch_instance(['list', '--json'])",
        prefix.display().to_string()
    );
    let theirs = told(&jupyter.run(&["-c", &script]).await);
    let mut command = jupyter.place.warmcell(&list);
    command
        .env("JUPYTER_PATH", work.join("jupyter"))
        .env("VIRTUAL_ENV", &prefix);
    let ours = told(&text(&finish(&mut command).stdout));
    assert_eq!(ours, theirs);
    let names: Vec<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["first", "old", "python3", "users"] {
        assert!(names.contains(&name), "{names:?}");
    }
}
