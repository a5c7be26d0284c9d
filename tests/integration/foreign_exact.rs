//! What a kernel that is not ours writes to its descriptors, and replies that make no sense.

use std::time::{Duration, Instant};

use serde_json::json;
use warmcell::config::ForeignKernel;
use warmcell::execution::{ErrorClass, Status};
use warmcell::session::QuestionKind;

use crate::foreign_kit::{hostile, manager, session, with_hostile, with_ipykernel};
use crate::messages_kit::ask;
use crate::support::{SAFETY, run};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_foreign_kernel_writes_to_a_descriptor_comes_once_and_whole() {
    with_ipykernel(async |_manager, session, _kernel| {
        for (code, bytes) in [
            ("import os; _ = os.write(1, b'abcd')", 4),
            ("_ = os.write(1, b'\\xff\\xfe')", 2),
            (
                "import sys\nfor n in range(10): _ = os.write(1, b'y' * 70_000)",
                700_000,
            ),
            ("_ = os.system('echo child')", 6),
            (
                "import subprocess; _ = subprocess.run('seq 1 20000', shell=True)",
                108_894,
            ),
            ("_ = subprocess.run(['echo', 'a'], stdout=sys.stdout)", 2),
            ("print('printed')", 8),
        ] {
            let outcome = run(session, code).await;
            assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
            assert_eq!(
                outcome.stdout_bytes_total, bytes,
                "{code}: {}",
                outcome.output
            );
        }
        let outcome = run(session, "_ = os.write(2, b'to stderr')").await;
        assert_eq!(outcome.output, "--- stderr ---\nto stderr");
        // What is on the pipes stays there, however it dies.
        let code = "import ctypes, faulthandler\nfaulthandler.enable()\nos.write(1, b'first words')\n\
                    os.write(2, b'last words\\n')\nctypes.string_at(0)";
        let died = run(session, code).await;
        assert_eq!(died.error_class, Some(ErrorClass::KernelDied));
        for text in ["first words", "last words\n", "Segmentation fault"] {
            assert_eq!(
                died.output.matches(text).count(),
                1,
                "{text}: {}",
                died.output
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_whose_reply_is_none_is_ended_and_says_why() {
    let manager = manager(SAFETY).await;
    for (mode, sentence) in [
        (
            "broken-list",
            "broke the protocol: unreadable execute_reply",
        ),
        (
            "broken-status",
            "broke the protocol: unreadable execute_reply",
        ),
        (
            "no-reply",
            "broke the protocol: it was idle again and had not replied to the cell",
        ),
        (
            "other-parent",
            "broke the protocol: it replied to what it was not asked",
        ),
    ] {
        let session = session(&manager, mode, hostile(mode));
        let outcome = run(&session, "hello").await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::KernelDied),
            "{}",
            outcome.output
        );
        let error = outcome.error.as_deref().unwrap();
        assert!(error.contains(sentence), "{mode}: {error}");
        assert!(outcome.output.starts_with("hello"), "{}", outcome.output);
    }
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_foreign_kernel_does_not_answer_ends_alone() {
    with_hostile(&["unanswered"], async |_manager, session, _mode| {
        let asked = json!({ "hist_access_type": "tail", "n": 2 });
        let began = Instant::now();
        for _ in 0..2 {
            let reply = ask(session, QuestionKind::History, &asked).await;
            assert_eq!(reply["status"], "error", "{reply}");
            let why = reply["evalue"].as_str().unwrap();
            assert!(why.contains("had not replied"), "{why}");
            assert_eq!(reply.get("history"), None, "{reply}");
            let asked = json!({ "code": "x", "cursor_pos": 1 });
            let reply = ask(session, QuestionKind::Complete, &asked).await;
            assert_eq!(reply["matches"], json!(["x!"]));
        }
        // A question is given up after five seconds: none of these was.
        assert!(began.elapsed() < Duration::from_secs(5));
    })
    .await;
}

/// It says that it speaks Python, and tells no variables: one gives no value, one does not reply.
#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_does_not_tell_its_variables_is_not_waited_for() {
    let manager = manager(SAFETY).await;
    for mode in ["honest", "keeps-names"] {
        let kernel = ForeignKernel {
            language: "python".to_owned(),
            ..hostile(mode)
        };
        let session = session(&manager, mode, kernel);
        for _ in 0..2 {
            let outcome = run(&session, "hello").await;
            assert_eq!(outcome.status, Status::Success, "{}", outcome.output);
            assert!(
                outcome.duration_seconds < 1.5,
                "{mode}: {}",
                outcome.duration_seconds
            );
        }
        let began = Instant::now();
        run(&session, "hello").await;
        assert!(began.elapsed() < Duration::from_millis(1_500), "{mode}");
    }
    manager.end().await;
}

/// The stderr of what does not start is read by people as any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_kernel_says_that_does_not_start_is_masked() {
    let manager = manager(SAFETY).await;
    let session = session(&manager, "secret", hostile("exits-with-a-token"));
    for _ in 0..2 {
        let outcome = run(&session, "1").await;
        let error = outcome.error.as_deref().unwrap();
        assert!(
            error.contains("it said: ") && !error.contains("ghp_"),
            "{error}"
        );
        assert!(error.contains("[redacted:"), "{error}");
        assert!(!outcome.output.contains("ghp_") && outcome.redacted == 1);
    }
    manager.end().await;
}
