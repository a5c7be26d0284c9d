//! ipykernel's own tests and nbclient's, from their source archives, against our kernel.
//!
//! `tests/conformance/left_out.txt` says what of them is not asked of it, and why; the rest has to pass.
//! Its kernels run on the Python of the suites: what the tests import is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::conformance::{Jupyter, suites};
use crate::support::{Place, finish_within, text};

/// The longest takes a minute when nothing else runs.
const PATIENCE: Duration = Duration::from_secs(300);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Runs tests of theirs, and looks at how many passed, were skipped by themselves, and failed as they
/// are expected to; and that it was our kernel that was tested, at least so often.
async fn run(tests: &[&str], words: &str, kernels: usize) {
    let Some(python) = suites() else { return };
    let theirs = python.parent().unwrap().parent().unwrap().join("suites");
    let jupyter = Jupyter::with_kernels_on(python.clone(), &python);
    let ini = folder().join("their_suites.ini");
    let ini = ini.to_str().unwrap();
    let mut command = jupyter.command(&["-m", "pytest", "-c", ini, "--rootdir"]);
    command.arg(&theirs);
    for test in tests {
        // A file, or the word that follows an option.
        if test.contains('/') {
            command.arg(theirs.join(test));
        } else {
            command.arg(test);
        }
    }
    let programs = python.parent().unwrap().display().to_string();
    let path = jupyter.place.environment()["PATH"].clone();
    command
        .env("PATH", format!("{programs}:{path}"))
        .env("PYTHONPATH", folder())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::task::spawn_blocking(move || finish_within(&mut command, PATIENCE));
    let output = output.await.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("\n{words}")), "{said}");
    assert!(
        jupyter.starts() >= kernels,
        "another kernel was tested: {said}"
    );
    jupyter.place.assert_no_survivors().await;
}

#[tokio::test]
async fn ipykernels_tests_of_messages_pass() {
    let tests = ["ipykernel/tests/test_message_spec.py"];
    run(&tests, "20 passed, 4 xfailed", 4).await;
}

#[tokio::test]
async fn ipykernels_tests_of_a_kernel_pass() {
    // Skipped by themselves: two that are for Windows, two that do not work with pytest, one that is
    // known to stall, one about matplotlib.
    let tests = ["ipykernel/tests/test_kernel.py"];
    run(&tests, "17 passed, 5 skipped, 13 xfailed", 15).await;
}

#[tokio::test]
async fn nbclients_notebooks_have_the_outputs_that_they_had() {
    let tests = [
        "nbclient/tests/test_client.py",
        "-k",
        "test_run_all_notebooks",
    ];
    run(&tests, "14 passed, 73 deselected, 2 xfailed", 16).await;
}

#[tokio::test]
async fn nbclients_other_tests_pass() {
    let tests = [
        "nbclient/tests/test_client.py",
        "nbclient/tests/test_cli.py::test_cli_simple",
        "-k",
        "not test_run_all_notebooks",
    ];
    run(&tests, "70 passed, 16 deselected, 4 xfailed", 50).await;
}

#[tokio::test]
async fn a_list_of_what_is_left_out_that_is_not_true_fails_the_run() {
    let Some(python) = suites() else { return };
    let place = Place::new();
    let tests = place.work().join("some/tests");
    fs::create_dir_all(&tests).unwrap();
    let source = "def test_good(): pass\ndef test_bad(): assert False\n";
    fs::write(tests.join("test_some.py"), source).unwrap();
    let list = place.work().join("left_out.txt");
    let bad = "some/tests/test_some.py::test_bad\n";
    let good = "some/tests/test_some.py::test_good\n";
    let gone = "some/tests/test_some.py::test_gone\n";
    let reason = "    For a reason.\n";
    for (entries, success, words) in [
        (
            format!("# All.\n\n{bad}{reason}"),
            true,
            "1 passed, 1 xfailed",
        ),
        (format!("{bad}{good}{reason}"), false, "1 failed, 1 xfailed"),
        (
            format!("{bad}{reason}{gone}{reason}"),
            false,
            "there is no some/tests/test_some.py::test_gone",
        ),
        (
            bad.to_owned(),
            false,
            "test_some.py::test_bad has no reason",
        ),
        (
            format!("{bad}{reason}{bad}{reason}"),
            false,
            "test_some.py::test_bad is there twice",
        ),
        (
            format!("{reason}{bad}{reason}"),
            false,
            "a reason for nothing: For a reason.",
        ),
        (String::new(), false, "1 failed, 1 passed"),
    ] {
        fs::write(&list, &entries).unwrap();
        let mut command = place.command(python.to_str().unwrap());
        command
            .args(["-m", "pytest", "-c"])
            .arg(folder().join("their_suites.ini"))
            .arg("--rootdir")
            .arg(place.work())
            .arg(&tests)
            .env("PYTHONPATH", folder())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("WARMCELL_LEFT_OUT", &list);
        let output = finish_within(&mut command, PATIENCE);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.success(), success, "{entries}{said}");
        assert!(said.contains(words), "{entries}{said}");
    }
}
