//! The tool, with jobs that the test drives.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::Terminal;
use super::test_room::{Room, Started};
use crate::provisioner::JobExit;
use crate::tools::Tool;

#[tokio::test]
async fn output_and_exit_code_come_back_as_they_are() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "make"})).await;
    job.print(b"  one\n");
    job.print(b"two \xff\x1b[0m\n\n");
    job.exit(JobExit::Code(3));
    let result = call.await.unwrap();
    let expected =
        json!({"output": "  one\ntwo \u{fffd}\u{1b}[0m\n\n", "exit_code": 3, "truncated": false});
    assert_eq!(Value::Object(result), expected);
    assert!(job.fate.is(true, false));
}

#[tokio::test]
async fn the_command_goes_to_a_shell_in_the_callers_directory() {
    let mut room = Room::new();
    let (call, job) = room
        .start(&json!({"command": "echo 'a' | cat", "background": false}))
        .await;
    let program = job.spec.argv[0].as_str();
    assert!(["/bin/bash", "/usr/bin/bash", "/bin/sh"].contains(&program));
    assert!(Path::new(program).exists());
    assert_eq!(job.spec.argv[1..], ["-c", "echo 'a' | cat"]);
    assert_eq!(job.spec.cwd, room.folder.path());
    let directory = room.folder.path().to_str().unwrap().to_owned();
    assert_eq!(
        job.spec.environment,
        [
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("PWD".to_owned(), directory)
        ]
    );
    job.exit(JobExit::Code(0));
    assert_eq!(call.await.unwrap()["exit_code"], 0);
}

#[tokio::test]
async fn a_signal_is_told_as_shells_do() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "x"})).await;
    job.exit(JobExit::Signal(15));
    let result = call.await.unwrap();
    assert_eq!(result["exit_code"], 143);
    assert!(!result.contains_key("error"));
}

#[tokio::test]
async fn output_beyond_the_window_is_counted_exactly() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "x"})).await;
    let printed: Vec<u8> = (0..200_000_u32).map(|at| b'a' + (at % 26) as u8).collect();
    let fd = job.writer.try_clone().unwrap();
    let mut writer = tokio::net::unix::pipe::Sender::from_owned_fd(fd).unwrap();
    writer.write_all(&printed).await.unwrap();
    job.exit(JobExit::Code(0));
    let result = call.await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let expected = format!(
        "{}\n\n... [OUTPUT TRUNCATED - 150,000 bytes omitted out of 200,000 total] ...\n\n{}",
        text(&printed[..20_000]),
        text(&printed[170_000..])
    );
    assert!(result["output"] == expected);
    assert_eq!(result["truncated"], true);
}

#[tokio::test]
async fn everything_printed_before_the_exit_is_there() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "x"})).await;
    job.print(&vec![b'x'; 40_000]);
    job.exit(JobExit::Code(0));
    let result = call.await.unwrap();
    assert_eq!(result["output"].as_str().map(str::len), Some(40_000));
}

#[tokio::test]
async fn leftovers_that_hold_the_pipe_do_not_hold_the_call() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "sleep 1000 &"})).await;
    let leftover = job.writer.try_clone().unwrap();
    job.print(b"started\n");
    job.exit(JobExit::Code(0));
    let result = call.await.unwrap();
    assert_eq!(result["output"], "started\n");
    assert!(job.fate.is(true, false));
    drop(leftover);
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_waited_for() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "exec >&- 2>&-; x"})).await;
    job.print(b"bye");
    let Started { writer, exit, .. } = job;
    drop(writer);
    tokio::task::yield_now().await;
    exit.send(Some(JobExit::Code(7))).unwrap();
    let result = call.await.unwrap();
    assert_eq!(
        (&result["output"], &result["exit_code"]),
        (&json!("bye"), &json!(7))
    );
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_final_and_keeps_the_output() {
    let mut room = Room::new();
    let (call, job) = room
        .start(&json!({"command": "sleep 600", "timeout": 1.5}))
        .await;
    job.print(b"so far\n");
    let began = Instant::now();
    let result = call.await.unwrap();
    assert_eq!(began.elapsed().as_millis() / 10, 150);
    assert_eq!(result["output"], "so far\n");
    assert_eq!(result["exit_code"], 124);
    assert_eq!(result["truncated"], false);
    assert_eq!(result["error_class"], "timeout");
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains("after 1.5 s, the 'timeout' of this call"),
        "{error}"
    );
    assert!(error.contains("final"), "{error}");
    assert!(job.fate.is(false, true));
    assert!(room.started.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn the_limit_that_applies_is_named() {
    let seconds = Duration::from_secs;
    for (argument, deadline, expected) in [
        (json!(null), None, "after 180 s, terminal.timeout"),
        (json!(400), None, "after 400 s, the 'timeout' of this call"),
        (
            json!(400),
            Some(seconds(310)),
            "after 310 s, the rest of the cell's time",
        ),
        (
            json!(null),
            Some(seconds(200)),
            "after 180 s, terminal.timeout",
        ),
        (
            json!(null),
            Some(seconds(5)),
            "after 5 s, the rest of the cell's time",
        ),
        (
            json!(86_400),
            Some(seconds(5)),
            "after 5 s, the rest of the cell's time",
        ),
    ] {
        let mut room = Room::new();
        room.context.deadline = deadline.map(|deadline| Instant::now() + deadline);
        let (call, _job) = room
            .start(&json!({"command": "x", "timeout": argument}))
            .await;
        let result = call.await.unwrap();
        let error = result["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn nothing_starts_when_the_time_is_over() {
    let mut room = Room::new();
    room.context.deadline = Some(Instant::now());
    let error = room.fails(&json!({"command": "x"}), "timeout").await;
    assert!(error.contains("the rest of the cell's time"), "{error}");
}

#[tokio::test]
async fn cancelling_ends_the_command() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "sleep 600"})).await;
    job.print(b"so far");
    room.context.cancelled.cancel();
    let result = call.await.unwrap();
    assert_eq!(result["output"], "so far");
    assert_eq!(result["error_class"], "interrupted");
    assert_eq!(result["exit_code"], 130);
    assert!(job.fate.is(false, true));
}

#[tokio::test]
async fn dropping_the_call_ends_the_command() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "sleep 600"})).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert!(job.fate.is(false, false));
}

#[tokio::test]
async fn a_command_that_cannot_start_or_loses_its_kernel_says_so() {
    let mut room = Room::new();
    let (call, job) = room.start(&json!({"command": "x"})).await;
    job.exit(JobExit::NotStarted(rustix::io::Errno::NOENT.raw_os_error()));
    let result = call.await.unwrap();
    assert_eq!(result["error_class"], "exception");
    assert!(
        result["error"]
            .as_str()
            .unwrap()
            .contains(&job.spec.argv[0])
    );

    let (call, job) = room.start(&json!({"command": "x"})).await;
    job.print(b"so far");
    job.exit(JobExit::Ended);
    let result = call.await.unwrap();
    assert_eq!(result["output"], "so far");
    assert_eq!(result["exit_code"], -1);
    assert_eq!(result["error_class"], "interrupted");
    assert!(
        result["error"]
            .as_str()
            .unwrap()
            .contains("the kernel ended")
    );
    assert!(job.fate.is(false, false));

    let mut room = Room::with(true);
    let error = room.fails(&json!({"command": "x"}), "exception").await;
    assert!(error.contains("signal 9"), "{error}");
}

#[tokio::test]
async fn keywords_of_background_work_are_refused() {
    let mut room = Room::new();
    for name in Terminal.spec().refused {
        let mut arguments = json!({"command": "x"});
        arguments[*name] = json!(true);
        let error = room.fails(&arguments, "refused").await;
        assert!(error.contains(&format!("'{name}'")), "{error}");
    }
    let error = room
        .fails(&json!({"command": "x", "cwd": "/"}), "usage")
        .await;
    assert!(error.contains("command, timeout, workdir"), "{error}");
}

#[tokio::test]
async fn arguments_are_checked() {
    let mut room = Room::new();
    let long = "x".repeat(200_000);
    for (arguments, class, word) in [
        (json!({}), "usage", "missing required argument 'command'"),
        (json!({"command": ""}), "usage", "empty"),
        (json!({"command": " \n"}), "usage", "empty"),
        (
            json!({"command": 5}),
            "usage",
            "must be a string, got a number",
        ),
        (
            json!({"command": ["ls"]}),
            "usage",
            "must be a string, got a list",
        ),
        (json!({"command": "a\u{0}b"}), "usage", "NUL"),
        (json!({"command": long}), "limit", "200000 bytes"),
        (json!({"command": "x", "timeout": 0}), "usage", "above 0"),
        (
            json!({"command": "x", "timeout": "5"}),
            "usage",
            "number of seconds",
        ),
        (
            json!({"command": "x", "workdir": 1}),
            "usage",
            "'workdir' must be a string",
        ),
    ] {
        let error = room.fails(&arguments, class).await;
        assert!(error.contains(word), "{error}");
    }
}

#[tokio::test]
async fn the_workdir_must_be_a_directory() {
    let mut room = Room::new();
    std::fs::create_dir_all(room.folder.path().join("home/sub")).unwrap();
    std::fs::write(room.folder.path().join("file"), "").unwrap();
    for missing in ["no/such", "/no/such", "file", ""] {
        let error = room
            .fails(&json!({"command": "x", "workdir": missing}), "usage")
            .await;
        assert!(error.contains(&format!("'{missing}'")), "{error}");
    }
    let absolute = room.folder.path().join("home").to_str().unwrap().to_owned();
    for (given, expected) in [
        ("home", "home"),
        ("~", "home"),
        ("~/sub", "home/sub"),
        (absolute.as_str(), "home"),
    ] {
        let (call, job) = room.start(&json!({"command": "x", "workdir": given})).await;
        let expected = room.folder.path().join(expected);
        assert_eq!(job.spec.cwd, expected);
        let directory = expected.to_str().unwrap().to_owned();
        assert!(
            job.spec
                .environment
                .contains(&("PWD".to_owned(), directory))
        );
        job.exit(JobExit::Code(0));
        call.await.unwrap();
    }
    room.context.cwd = Some(PathBuf::from("/no/such"));
    let error = room.fails(&json!({"command": "x"}), "exception").await;
    assert!(error.contains("/no/such"), "{error}");
}

#[tokio::test]
async fn the_floor_is_checked_before_anything_runs() {
    let mut room = Room::new();
    let home = room.folder.path().join("home").to_str().unwrap().to_owned();
    for (command, rule) in [
        ("rm -rf /".to_owned(), "rm-root"),
        (format!("rm -rf {home}"), "rm-home"),
        ("true; sudo reboot".to_owned(), "power"),
        ("bash -c 'echo \"'".to_owned(), "malformed-payload"),
    ] {
        let error = room.fails(&json!({"command": command}), "refused").await;
        assert!(error.contains(&format!("'{rule}'")), "{error}");
    }
}
