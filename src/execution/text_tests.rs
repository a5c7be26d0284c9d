//! The text of results, word for word.

use super::*;
use crate::execution::{Cost, Kept, LossReason, Lost, LostName, Stop};
use crate::jupyter::ExecuteReply;
use crate::kernel::Death;
use crate::output::Windowed;
use crate::provisioner::KernelExit;
use crate::tools::{ToolCallRecord, ToolUse};

fn printed(text: &str) -> Windowed {
    let total = text.len() as u64;
    Windowed {
        text: text.to_owned(),
        total,
        captured: total,
        omitted: 0,
        omitted_from: total,
        is_cut: false,
    }
}

fn ran(how: How, stdout: &str) -> CellRun {
    CellRun {
        how,
        stdout: printed(stdout),
        stderr: printed(""),
        result: None,
        duration: Duration::from_millis(1_005),
        tool_use: ToolUse::default(),
        dropped_messages: 0,
        redacted: 0,
        background: None,
        kept: Kept::default(),
    }
}

fn story() -> Story<'static> {
    Story {
        execution_count: 4,
        generation: 1,
        reused: true,
        first_cell: false,
        timeout: Duration::from_secs(1),
        earlier_loss: None,
        loss: None,
        successor: Successor::Started,
        background: None,
        warnings: Vec::new(),
        setting: Setting::of(""),
        // Each test is a process's few bytes.
        repeats: Box::leak(Box::default()),
    }
}

fn replied(json: &str) -> How {
    How::Replied(Box::new(ExecuteReply::parse(json.as_bytes()).unwrap()))
}

fn names(names: &[&str], total: u64, cells: u64) -> Lost {
    let names = names
        .iter()
        .map(|name| LostName {
            name: (*name).to_owned(),
            kind: "int".to_owned(),
        })
        .collect();
    Lost {
        cells,
        names,
        names_total: total,
        at_least: false,
        unreceived: Vec::new(),
    }
}

fn loss(reason: LossReason, detail: &str, lost: Lost) -> Loss {
    Loss {
        reason,
        detail: detail.to_owned(),
        lost,
    }
}

#[test]
fn a_timeout_says_what_is_lost_as_in_trace_4() {
    let lost = loss(LossReason::Timeout, "timeout 1 s", names(&["x"], 1, 3));
    let outcome = outcome_of(
        ran(How::Lost(Stop::Timeout, Cost::Killed), "b\n"),
        Story {
            loss: Some(lost),
            ..story()
        },
    );
    assert_eq!(
        outcome.output,
        "b\n[timed out after 1 s; the kernel was killed and restarted: 3 cells and x are lost; \
         rebuild what you need, or give the cell more time]"
    );
    assert_eq!(outcome.error.as_deref(), Some("timed out after 1 s"));
    assert_eq!(outcome.error_class, Some(ErrorClass::Timeout));
    assert_eq!(outcome.exit_code, -1);
    assert_eq!(outcome.kernel.state, ReportedState::Lost);
    assert_eq!(outcome.kernel.reason, Some(LossReason::Timeout));
    assert_eq!(outcome.kernel.lost, Some(names(&["x"], 1, 3)));
    assert!((outcome.duration_seconds - 1.0).abs() < 0.011);
}

#[test]
fn the_first_cell_on_a_new_kernel_says_why_it_is_new() {
    let twelve = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "model", "df",
    ];
    let earlier = loss(LossReason::Timeout, "timeout 1 s", names(&twelve, 12, 3));
    let told = Story {
        first_cell: true,
        execution_count: 1,
        generation: 2,
        reused: false,
        earlier_loss: Some((earlier.clone(), true)),
        ..story()
    };
    let outcome = outcome_of(ran(replied(r#"{"status":"ok"}"#), "hi\n"), told);
    assert_eq!(
        outcome.output,
        "[new kernel: the previous one was lost (timeout 1 s); gone: df, model, j, i, h and 7 \
         more]\nhi\n"
    );
    assert_eq!(outcome.kernel.state, ReportedState::Fresh);
    assert_eq!(outcome.kernel.reason, Some(LossReason::Timeout));
    assert_eq!(outcome.kernel.lost, None, "the caller was told already");
    let untold = Story {
        first_cell: true,
        earlier_loss: Some((earlier, false)),
        ..story()
    };
    let outcome = outcome_of(ran(replied(r#"{"status":"ok"}"#), ""), untold);
    assert_eq!(outcome.kernel.lost.unwrap().names_total, 12);
}

#[test]
fn two_losses_that_nobody_was_told_are_told_together() {
    let earlier = loss(LossReason::Timeout, "timeout 1 s", names(&["a"], 1, 2));
    let own = loss(LossReason::Interrupt, "interrupt", names(&["b"], 1, 1));
    let both = Story {
        earlier_loss: Some((earlier, false)),
        loss: Some(own),
        first_cell: true,
        ..story()
    };
    let outcome = outcome_of(ran(How::Lost(Stop::Interrupt, Cost::Killed), ""), both);
    assert_eq!(outcome.kernel.lost, Some(names(&["a", "b"], 2, 3)));
    assert_eq!(outcome.kernel.reason, Some(LossReason::Interrupt));
    assert_eq!(outcome.status, Status::Interrupted);
}

/// The text without the line of the hint.
fn unhinted(output: &str) -> &str {
    output.split("\n[hint: ").next().unwrap_or_default()
}

fn stopped(stop: Stop, json: &str) -> Outcome {
    let reply = ExecuteReply::parse(json.as_bytes()).unwrap();
    outcome_of(ran(How::Stopped(stop, Box::new(reply)), "a\n"), story())
}

#[test]
fn an_interrupt_in_place_tells_what_was_observed() {
    let raised = r#"{"status":"error","ename":"KeyboardInterrupt","traceback":["T","KeyboardInterrupt"],
        "warmcell":{"interrupted":true,"error":{"class":"interrupted","line":"KeyboardInterrupt",
        "place":"<cell 4>, line 2"}}}"#;
    let outcome = stopped(Stop::Interrupt, raised);
    assert_eq!(
        outcome.output,
        "a\n--- stderr ---\nT\nKeyboardInterrupt\n[interrupted; state is kept]"
    );
    assert_eq!(outcome.status, Status::Interrupted);
    assert_eq!(outcome.error_class, Some(ErrorClass::Interrupted));
    assert_eq!(
        outcome.error.as_deref(),
        Some("KeyboardInterrupt (<cell 4>, line 2)")
    );
    assert_eq!(outcome.exit_code, -1);
    assert_eq!(outcome.kernel.state, ReportedState::Kept);
    assert_eq!(outcome.kernel.reason, None);
    let outcome = stopped(Stop::Timeout, raised);
    let line = "\n[timed out after 1 s and was interrupted; state is kept]";
    assert!(unhinted(&outcome.output).ends_with(line));
    assert_eq!(outcome.status, Status::Timeout);
    assert_eq!(outcome.error_class, Some(ErrorClass::Timeout));
    assert_eq!(outcome.error.as_deref(), Some("timed out after 1 s"));
    for (reply, end) in [
        (r#"{"status":"ok"}"#, "ended by itself"),
        (
            r#"{"status":"error","warmcell":{"exit":{"code":3}}}"#,
            "called sys.exit(3)",
        ),
        (r#"{"status":"error","ename":"E","evalue":"v"}"#, "raised E"),
        (r#"{"status":"error","ename":"","evalue":"1"}"#, "failed"),
    ] {
        let outcome = stopped(Stop::Interrupt, reply);
        let line = format!("[interrupted; after that the cell {end}; state is kept]");
        assert!(outcome.output.ends_with(&line), "{}", outcome.output);
        assert_eq!(outcome.exit_code, -1);
        assert_eq!(outcome.error.as_deref(), Some("interrupted"));
        let outcome = stopped(Stop::Timeout, reply);
        let line = format!("and was interrupted; after that the cell {end}; state is kept]");
        assert!(
            unhinted(&outcome.output).ends_with(&line),
            "{}",
            outcome.output
        );
    }
}

#[test]
fn an_interrupt_that_has_cost_the_kernel_tells_how() {
    let lost = |stop: Stop, cost| {
        let lost = loss(stop.reason(), "", names(&["x"], 1, 0));
        let story = Story {
            loss: Some(lost),
            ..story()
        };
        let outcome = outcome_of(ran(How::Lost(stop, cost), ""), story);
        assert_eq!(outcome.kernel.state, ReportedState::Lost);
        (outcome.status, outcome.error.unwrap(), outcome.output)
    };
    let (status, error, output) = lost(Stop::Timeout, Cost::Deaf(Duration::from_secs(3)));
    assert_eq!(status, Status::Timeout);
    assert_eq!(
        error,
        "timed out after 1 s, was interrupted and did not end within 3 s"
    );
    assert_eq!(
        output,
        format!(
            "[{error}; the kernel was killed and restarted: x is lost; rebuild what you need, or give \
             the cell more time]"
        )
    );
    let (status, error, _) = lost(Stop::Interrupt, Cost::CutShort);
    assert_eq!(status, Status::Interrupted);
    assert_eq!(error, "interrupted and then ended by force");
    let death = Death::Exited(KernelExit::Signal(2));
    let (status, error, output) = lost(Stop::Interrupt, Cost::Died(death));
    assert_eq!(status, Status::Interrupted);
    assert_eq!(
        error,
        "interrupted, and the kernel was killed by signal 2 (SIGINT)"
    );
    assert!(output.contains("; a fresh one was started: x is lost; rebuild"));
}

#[test]
fn a_restart_is_told_as_far_as_it_was_seen() {
    let told = |how: How, successor| {
        let story = Story {
            loss: Some(loss(LossReason::Timeout, "", names(&["x"], 1, 0))),
            successor,
            ..story()
        };
        outcome_of(ran(how, ""), story).output
    };
    let failed = || Successor::Failed("no Python".to_owned());
    let killed = |successor| told(How::Lost(Stop::Interrupt, Cost::Killed), successor);
    let died = |successor| told(How::Died(Death::Ended), successor);
    let rest = "x is lost; rebuild what you need]";
    assert_eq!(
        killed(Successor::Starting),
        format!("[interrupted; the kernel was killed; a fresh one is being started: {rest}")
    );
    assert_eq!(
        killed(failed()),
        format!(
            "[interrupted; the kernel was killed; no fresh one could be started (no Python), the next \
             cell tries again: {rest}"
        )
    );
    assert!(died(Successor::Started).contains("; a fresh one was started: "));
    assert!(died(Successor::Starting).contains("; a fresh one is being started: "));
    assert!(died(failed()).contains("; no fresh one could be started (no Python), the next"));
    // Where no other cell comes nobody asks.
    assert_eq!(
        killed(Successor::Unwanted),
        format!("[interrupted; the kernel was killed: {rest}")
    );
    let ended = died(Successor::Unwanted);
    assert!(ended.ends_with(" while running the cell: x is lost; rebuild what you need]"));
    let unbegun = told(How::NotStarted(Death::Ended), Successor::Started);
    assert!(unbegun.contains(" before the cell began; "), "{unbegun}");
}

#[test]
fn an_earlier_loss_is_not_the_state_of_a_kernel_that_lives() {
    let earlier = loss(LossReason::Timeout, "timeout 1 s", names(&["x"], 1, 2));
    let later = Story {
        earlier_loss: Some((earlier, false)),
        ..story()
    };
    let outcome = outcome_of(ran(replied(r#"{"status":"ok"}"#), "3\n"), later);
    assert_eq!(
        outcome.output,
        "[an earlier loss, which no result that was received has told: the kernel before this one \
         was lost (timeout 1 s); gone: x]\n3\n"
    );
    assert_eq!(outcome.kernel.state, ReportedState::Kept);
    assert_eq!((outcome.kernel.reason, outcome.kernel.lost), (None, None));
}

#[test]
fn names_are_told_in_words() {
    let words = |list: &[&str], total| names(list, total, 0).names_in_words();
    assert_eq!(words(&[], 0), None);
    assert_eq!(words(&["x"], 1).unwrap(), "x");
    assert_eq!(words(&["x", "y"], 2).unwrap(), "y and x");
    assert_eq!(words(&["x", "y", "z"], 3).unwrap(), "z, y and x");
    assert_eq!(words(&["x", "y"], 12).unwrap(), "y, x and 10 more");
    assert_eq!(words(&[], 7).unwrap(), "7 variables");
}

#[test]
fn a_dead_kernel_is_told_with_its_signal_or_code() {
    for (exit, words) in [
        (KernelExit::Code(3), "exited with code 3"),
        (KernelExit::Signal(9), "was killed by signal 9 (SIGKILL)"),
        (KernelExit::Signal(11), "was killed by signal 11 (SIGSEGV)"),
        (
            KernelExit::ForkserverGone {
                reason: "was killed by signal 9".to_owned(),
            },
            "ended because its forkserver was killed by signal 9",
        ),
    ] {
        let lost = loss(LossReason::KernelDied, "kernel_died", names(&[], 0, 0));
        let story = Story {
            loss: Some(lost),
            ..story()
        };
        let outcome = outcome_of(ran(How::Died(Death::Exited(exit)), ""), story);
        let error = format!("the kernel {words} while running the cell");
        assert_eq!(outcome.error.as_deref(), Some(error.as_str()));
        assert_eq!(
            unhinted(&outcome.output),
            format!("[{error}; a fresh one was started; nothing but this cell is lost]")
        );
        assert_eq!(outcome.exit_code, -1);
        assert_eq!(outcome.error_class, Some(ErrorClass::KernelDied));
    }
}

#[test]
fn the_parts_of_the_output_stand_in_order() {
    let reply = r#"{"status":"error","ename":"E","evalue":"v","traceback":["Traceback","E: v"],
        "warmcell":{"error":{"class":"exception","line":"E: v","place":"<cell 4>, line 1"}}}"#;
    let mut run = ran(replied(reply), "out");
    run.result = Some("7".to_owned());
    run.stderr = printed("err\n");
    run.dropped_messages = 2;
    let background = BackgroundOutput {
        text: "late\n".to_owned(),
        bytes_total: 5,
    };
    let story = Story {
        background: Some(background),
        warnings: vec!["stdout was put right".to_owned()],
        ..story()
    };
    let outcome = outcome_of(run, story);
    assert_eq!(
        outcome.output,
        "out\n7\n--- stderr ---\nerr\nTraceback\nE: v\n[5 bytes printed between cells: late]"
    );
    assert_eq!(outcome.error.as_deref(), Some("E: v (<cell 4>, line 1)"));
    assert_eq!(
        outcome.warning.as_deref(),
        Some("stdout was put right; 2 messages of the kernel made no sense and were dropped")
    );
    assert_eq!(outcome.exit_code, 1);
}

#[test]
fn an_empty_success_says_so_in_one_line() {
    let outcome = outcome_of(ran(replied(r#"{"status":"ok"}"#), ""), story());
    assert_eq!(outcome.output, "[completed without output]");
    assert!(
        outcome.beside_streams.notices.is_empty(),
        "a stream shows nothing"
    );
}

#[test]
fn an_exit_is_told_with_its_argument() {
    let exit = |json: &str| {
        let reply = format!(r#"{{"status":"error","warmcell":{{"exit":{json}}}}}"#);
        outcome_of(ran(replied(&reply), ""), story())
    };
    let outcome = exit(r#"{"code":3}"#);
    assert_eq!(
        outcome.error.as_deref(),
        Some("the cell called sys.exit(3)")
    );
    assert_eq!(outcome.exit_code, 3);
    assert_eq!(outcome.kernel.state, ReportedState::Kept);
    let outcome = exit(r#"{"code":1,"text":"a\nb"}"#);
    assert_eq!(
        outcome.error.as_deref(),
        Some(r#"the cell called sys.exit("a\nb")"#)
    );
    assert_eq!(outcome.exit_code, 1);
    let outcome = exit(r#"{"code":7,"number":"100000000000000000007"}"#);
    assert_eq!(
        outcome.error.as_deref(),
        Some("the cell called sys.exit(100000000000000000007)")
    );
    assert_eq!(outcome.exit_code, 7);
}

#[test]
fn keys_stand_only_where_they_say_something() {
    let mut run = ran(replied(r#"{"status":"ok"}"#), "a\n");
    let plain = serde_json::to_value(outcome_of(
        ran(replied(r#"{"status":"ok"}"#), "a\n"),
        story(),
    ));
    let mut keys: Vec<String> = plain
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "duration_seconds",
            "exit_code",
            "kernel",
            "output",
            "status",
            "stdout_bytes_captured",
            "stdout_bytes_omitted",
            "stdout_bytes_total",
            "stdout_truncated",
            "tool_calls_made",
        ]
    );
    run.result = Some("é".repeat(3_000));
    run.tool_use = ToolUse {
        made: 1,
        refused: Some((3, "tool call limit reached (1 in this cell)".to_owned())),
        calls: vec![ToolCallRecord {
            tool: "terminal".to_owned(),
            ms: 5,
            ok: true,
        }],
    };
    let outcome = serde_json::to_value(outcome_of(run, story())).unwrap();
    assert_eq!(outcome["result"].as_str().unwrap().chars().count(), 2_000);
    assert_eq!(outcome["tool_calls"][0]["tool"], "terminal");
    assert_eq!(outcome["tool_calls_made"], 1);
    assert_eq!(
        outcome["warning"],
        "3 tool calls were refused: tool call limit reached (1 in this cell)"
    );
}
