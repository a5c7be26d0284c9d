//! `--kernel`: kernels that are not ours from the command line, and at the door for Jupyter.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::command_kit::{Running, assert_nothing_left, piped};
use crate::foreign_kit::{exec, hostile, house, install, ipykernel, spec};
use crate::jupyter_kit::Form;
use crate::lifecycle_support::{signal, written};
use crate::server_kit::{Home, parts};
use crate::support::{Place, finish, python, text};

#[tokio::test]
async fn a_kernel_is_named_on_the_command_line_in_any_case() {
    let place = Place::new();
    install(&place, "Echo", &spec(&hostile("honest")));
    let said = finish(&mut exec(&place, &["--kernel", "eCHo", "hello"]));
    assert_eq!(text(&said.stdout), "hello", "{}", text(&said.stderr));
    assert_eq!(said.status.code(), Some(0));
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_kernel_that_is_not_there_is_usage_and_says_what_there_is() {
    let place = Place::new();
    let base = install(&place, "echo", &spec(&hostile("honest")));
    fs::create_dir_all(base.join("kernels/broken")).unwrap();
    fs::write(base.join("kernels/broken/kernel.json"), "{").unwrap();
    for (arguments, sentence) in [
        (
            &["--kernel", "nope", "1"][..],
            "not installed; there are echo",
        ),
        (
            &["--kernel", "broken", "1"],
            "kernel.json is no JSON object",
        ),
        (&["--kernel", "../x", "1"], "no name of a kernelspec"),
        (&["--kernel", "echo", "--python", "/p", "1"], "--python"),
    ] {
        let refused = finish(&mut exec(&place, arguments));
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        let err = text(&refused.stderr);
        assert!(err.contains(sentence), "{err}");
    }
    let refused = finish(&mut exec(&place, &["--kernel", "nope", "1"]));
    let looked = base.join("kernels").display().to_string();
    assert!(
        text(&refused.stderr).contains(&looked),
        "{}",
        text(&refused.stderr)
    );
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_session_lives_on_with_its_kernel_and_shows_it() {
    let home = Home::new();
    let base = install(&home.place, "echo", &spec(&hostile("honest")));
    install(&home.place, "other", &spec(&hostile("honest")));
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        parts(&finish(command.env("JUPYTER_PATH", &base)))
    };
    let (code, out, err) = run(&["exec", "-s", "k", "--kernel", "echo", "one"]);
    assert_eq!((code, out.as_str()), (0, "one"), "{err}");
    // Who names none has the one that is there.
    let (code, out, err) = run(&["exec", "-s", "k", "two"]);
    assert_eq!((code, out.as_str()), (0, "two"), "{err}");
    let (_, out, _) = run(&["sessions", "show", "k"]);
    assert!(out.contains("the kernelspec echo"), "{out}");
    let (_, out, _) = run(&["sessions", "show", "k", "--json"]);
    assert!(out.contains(r#""kernel":"echo""#), "{out}");
    let (code, out, err) = run(&["exec", "-s", "k", "--kernel", "other", "three"]);
    assert_eq!((code, out.as_str()), (0, "three"), "{err}");
    assert!(err.contains("the kernel other was asked for"), "{err}");
    // By its name over HTTP, where the caller says where to look.
    let body = json!({"code": "four", "caller": {"cwd": "/", "kernel": "echo", "environment": [
        ["PATH", home.place.environment()["PATH"]], ["JUPYTER_PATH", base]]}});
    let body = body.to_string();
    let request = format!(
        "POST /warmcell/v1/sessions/h/cells HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = home.http(&request);
    assert!(answer.contains(r#""output":"four""#), "{answer}");
    home.end().await;
}

#[tokio::test]
async fn a_manager_that_is_killed_leaves_nothing_of_a_foreign_kernel() {
    let Some(kernel) = ipykernel() else { return };
    let place = Place::new();
    install(&place, "ipy", &spec(&kernel));
    let begun = place.work().join("begun");
    let code = format!(
        "import subprocess, os\nsubprocess.Popen(['setsid', 'sleep', '4323'])\n\
         os.system('(sleep 4324 &)')\nprint(os.environ['FOREIGN'], file=open({begun:?}, 'w'), flush=True)\n\
         while True: pass"
    );
    let mut command = exec(&place, &["--kernel", "ipy", &code]);
    let mut running = Running::start(piped(&mut command));
    let home = written(&begun).await;
    assert_eq!(home.trim(), place.work().join("x").display().to_string());
    signal(running.pid(), Signal::KILL);
    running.ended().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn by_hand_a_bridge_is_refused() {
    let place = Place::new();
    let refused = finish(&mut place.warmcell(&["bridge"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("not by hand"),
        "{}",
        text(&refused.stderr)
    );
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn front_ends_of_jupyter_find_and_start_kernels_that_are_not_ours() {
    let house = house().await;
    install(&house.place, "Echo", &spec(&hostile("honest")));
    let (status, specs) = house.ask("GET", "/api/kernelspecs", &json!({})).await;
    assert_eq!((status, &specs["default"]), (200, &"python3".into()));
    assert_eq!(specs["kernelspecs"]["echo"]["spec"]["language"], "echo");
    let (status, refused) = house
        .ask("POST", "/api/kernels", &json!({"name": "nope"}))
        .await;
    assert_eq!(status, 400, "{refused}");
    assert!(
        !refused["message"].as_str().unwrap().contains("--"),
        "{refused}"
    );
    let (status, kernel) = house
        .ask("POST", "/api/kernels", &json!({"name": "echo"}))
        .await;
    assert_eq!((status, &kernel["name"]), (201, &"echo".into()), "{kernel}");
    let name = kernel["warmcell"]["session"].as_str().unwrap();
    let name = warmcell::session::SessionName::parse(name).unwrap();
    let session = house.manager.registry().find(&name).unwrap();
    let mut client = house.client(&session, Form::V1).await;
    let seen = client.run("hello").await;
    assert!(seen.iter().any(|it| it.contains("hello")), "{seen:?}");
    drop(client);
    house.close().await;
}

/// A kernelspec of ours is our kernel wherever its name is said, on the Python that it names.
#[tokio::test]
async fn a_kernelspec_of_ours_means_our_kernel_at_the_door_and_on_the_command_line() {
    let house = house().await;
    install(&house.place, "echo", &spec(&hostile("honest")));
    let ours = json!({
        "argv": ["/bin/sh", "kernel", "--python", python()], "language": "python",
        "display_name": "M", "metadata": { "warmcell": {} }, "env": { "TZ": "${LANG}/X" },
    });
    let base = install(&house.place, "Mine", &ours);
    let (_, specs) = house.ask("GET", "/api/kernelspecs", &json!({})).await;
    assert_eq!(specs["kernelspecs"]["mine"]["spec"]["display_name"], "M");
    let (status, kernel) = house
        .ask(
            "POST",
            "/api/kernels",
            &json!({"name": "Mine", "env": {"LANG": "C"}}),
        )
        .await;
    assert_eq!(
        (status, &kernel["name"]),
        (201, &"python3".into()),
        "{kernel}"
    );
    let name = kernel["warmcell"]["session"].as_str().unwrap();
    let name = warmcell::session::SessionName::parse(name).unwrap();
    let session = house.manager.registry().find(&name).unwrap();
    let outcome =
        crate::support::run(&session, "import sys, os; sys.executable, os.environ['TZ']").await;
    let told = format!("('{}', 'C/X')", python().display());
    assert_eq!(outcome.output, told);

    // On the command line, and over HTTP: also in the place of one that is not ours.
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        parts(&finish(command.env("JUPYTER_PATH", &base)))
    };
    let (code, out, err) = run(&["exec", "-s", "k", "--kernel", "echo", "one"]);
    assert_eq!((code, out.as_str()), (0, "one"), "{err}");
    let (code, out, err) = run(&["exec", "-s", "k", "--kernel", "mine", "x = 6 * 7; x"]);
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    let (code, out, err) = run(&["exec", "-s", "k", "--kernel", "mine", "x"]);
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    let (code, out, err) = run(&["exec", "--kernel", "mine", "6 * 7"]);
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    let caller = json!({"cwd": "/", "kernel": "mine", "environment": {
        "PATH": home.place.environment()["PATH"], "JUPYTER_PATH": base }});
    let answer = home.order("h", &json!({"code": "6 * 7", "caller": caller}));
    assert_eq!(answer.json()["output"], "42", "{answer:?}");
    let caller = json!({"cwd": "/", "kernel": "nope"});
    let answer = home.order("h", &json!({"code": "1", "caller": caller}));
    let error = answer.json()["error"].to_string();
    assert!(
        error.contains("not installed") && !error.contains("--"),
        "{error}"
    );
    home.end().await;
    house.close().await;
}
