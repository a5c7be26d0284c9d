//! What is told of kernels that are not ours: no more, and no less, than concerns those who use them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::command_kit::assert_nothing_left;
use crate::foreign_kit::ipykernel;
use crate::server_kit::{Home, parts};
use crate::support::{Place, finish, python};

/// Writes a kernelspec of an odd kernel; the folder for `JUPYTER_PATH`.
fn install(place: &Place, mode: &str) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/odd_kernel.py");
    let argv = json!([python(), program, mode, "{connection_file}"]);
    install_as(place, mode, &argv, "echo");
}

fn install_as(place: &Place, name: &str, argv: &Value, language: &str) {
    let folder = place.work().join("jupyter/kernels").join(name);
    fs::create_dir_all(&folder).unwrap();
    let env = json!({ "OPENAI_API_KEY": "s", "FOO": "f" });
    let spec = json!({ "argv": argv, "language": language, "display_name": name, "env": env });
    fs::write(folder.join("kernel.json"), spec.to_string()).unwrap();
}

fn run(place: &Place, words: &[&str]) -> (i32, String, String) {
    let mut command = place.warmcell(words);
    parts(&finish(
        command.env("JUPYTER_PATH", place.work().join("jupyter")),
    ))
}

/// Such kernels take their time, or abort in their last moment: their state is not asked for any more.
#[tokio::test]
async fn how_a_foreign_kernel_ends_when_it_was_told_to_is_its_own_business() {
    for mode in ["ends-late", "aborts"] {
        let place = Place::new();
        install(&place, mode);
        let said = run(&place, &["exec", "--kernel", mode, "hello"]);
        assert_eq!(said, (0, "hello".to_owned(), String::new()), "{mode}");
        assert_nothing_left(&place).await;
    }
    let home = Home::new();
    install(&home.place, "aborts");
    let (code, _, err) = run(&home.place, &["exec", "-s", "k", "--kernel", "aborts", "x"]);
    assert_eq!(code, 0, "{err}");
    let closed = run(&home.place, &["sessions", "close", "k"]);
    let told = "warmcell: session k is closed\n".to_owned();
    assert_eq!(closed, (0, String::new(), told));
    home.end().await;
}

/// It was started in that directory, so it need not be moved there; another directory is told.
#[tokio::test]
async fn a_kernel_that_was_started_in_a_directory_need_not_be_moved_there() {
    let home = Home::new();
    install(&home.place, "pages");
    let other = home.place.work().join("other");
    fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    let kernel = ["--kernel", "pages", "--cwd", other, "x"];
    for words in [&["exec"][..], &["exec", "-s", "k"]] {
        let (code, _, err) = run(&home.place, &[words, &kernel].concat());
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("cannot be moved"), "{err}");
    }
    let (_, _, err) = run(&home.place, &["exec", "-s", "k", "--cwd", "/", "x"]);
    assert!(err.contains("cannot be moved"), "{err}");
    let (_, _, err) = run(&home.place, &["exec", "-s", "k", "--cwd", other, "x"]);
    assert!(!err.contains("cannot be moved"), "{err}");
    home.end().await;
}

/// `len?` in ipykernel.
#[tokio::test]
async fn what_a_foreign_kernel_would_show_in_a_pager_is_shown() {
    let place = Place::new();
    install(&place, "pages");
    let (code, out, err) = run(&place, &["exec", "--kernel", "pages", "x"]);
    assert_eq!((code, out.as_str()), (0, "x\nhelp of len\n"), "{err}");
    let (_, out, _) = run(&place, &["exec", "--json", "--kernel", "pages", "x"]);
    let outcome: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(outcome["output"], "x\nhelp of len\n");
    if let Some(kernel) = ipykernel() {
        install_as(&place, "ipy", &json!(kernel.argv), "python");
        let (code, out, err) = run(&place, &["exec", "--kernel", "ipy", "len?"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("Return the number of items"), "{out}");
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn an_error_without_a_name_is_told_by_its_text() {
    let place = Place::new();
    install(&place, "unnamed");
    let words = ["exec", "--json", "--kernel", "unnamed", "x"];
    let (code, out, _) = run(&place, &words);
    let outcome: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &outcome["error"]), (1, &"127".into()));
    let (_, _, err) = run(&place, &["exec", "--kernel", "unnamed", "x"]);
    assert_eq!(err, "127\n");
    assert_nothing_left(&place).await;
}

/// What the kernelspec sets passes; never what is the agent's own.
#[tokio::test]
async fn what_the_kernelspec_of_a_foreign_kernel_sets_passes_but_for_credentials() {
    let place = Place::new();
    let code = "import os, sys; sys.exit(str(sorted(set(os.environ) & {'FOO', 'OPENAI_API_KEY'})))";
    let argv = json!([python(), "-c", code, "{connection_file}"]);
    install_as(&place, "shows", &argv, "echo");
    let (code, _, err) = run(&place, &["exec", "--kernel", "shows", "x"]);
    assert_eq!(code, 125);
    assert!(err.contains("['FOO']"), "{err}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn tools_for_a_kernel_that_can_call_none_are_refused() {
    let home = Home::new();
    install(&home.place, "pages");
    for words in [&["exec"][..], &["exec", "-s", "k"]] {
        let words = [words, &["--kernel", "pages", "--tools", "terminal", "x"]].concat();
        let (code, out, err) = run(&home.place, &words);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(
            err.contains("pages are echo") && err.contains("--tools"),
            "{err}"
        );
    }
    let none = ["exec", "-s", "k", "--kernel", "pages", "--no-tools", "x"];
    let (code, _, err) = run(&home.place, &none);
    assert_eq!(code, 0, "{err}");
    let environment = json!({
        "PATH": home.place.environment()["PATH"], "JUPYTER_PATH": home.place.work().join("jupyter"),
    });
    let caller = json!({ "cwd": "/", "kernel": "pages", "environment": environment });
    let order = json!({ "code": "x", "tools": ["terminal"], "caller": caller });
    let (status, sentence) = home.order("k", &order).usage();
    assert_eq!(status, 400);
    assert!(
        sentence.contains("`tools`: cells of the kernel pages are echo"),
        "{sentence}"
    );
    home.end().await;
}

/// `exec` without a session ends: nobody needs another kernel.
#[tokio::test]
async fn an_exec_that_ends_promises_no_other_kernel() {
    let place = Place::new();
    let (code, _, err) = parts(&finish(&mut place.exec(&["-t", "0.2", "while True: pass"])));
    assert_eq!(code, 124);
    let (told, hint) = err.split_once('\n').unwrap();
    assert_eq!(
        told,
        "[timed out after 0.2 s; the kernel was killed; nothing but this cell is lost]"
    );
    assert!(hint.starts_with("[hint: give it more time "), "{hint}");
    let (code, _, err) = parts(&finish(&mut place.exec(&["import os; os._exit(3)"])));
    assert_eq!(code, 126);
    assert_eq!(
        err,
        "[the kernel exited with code 3 while running the cell; nothing but this cell is lost]\n"
    );
    assert_nothing_left(&place).await;
}
