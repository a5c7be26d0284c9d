//! A cell that writes to the kernel's own link: it ends its own kernel at most.

use std::time::Duration;

use warmcell::execution::{ErrorClass, Status};
use warmcell::session::Cell;

use crate::support::{Manager, assert_shows, on_each_python, run, run_cell};

/// Finds the link, and makes frames.
const LINK: &str = "import os, stat, struct
def find_link():
    for fd in sorted(map(int, os.listdir('/proc/self/fd')), reverse=True):
        try:
            if fd >= 64 and stat.S_ISSOCK(os.fstat(fd).st_mode): return fd
        except OSError: pass
link = find_link()
def parts(*parts):
    offsets = [8 * (len(parts) + 2)]
    for part in parts: offsets.append(offsets[-1] + len(part))
    body = struct.pack(f'<{len(offsets) + 1}Q', len(offsets), *offsets) + b''.join(parts)
    return struct.pack('<I', len(body)) + body
def message(channel, header, content, parent=b'{}'):
    return parts(channel, header, parent, b'{}', content)
def send(data):
    view = memoryview(data)
    while view: view = view[os.write(link, view):]
def header(kind): return b'{\"msg_id\":\"x\",\"msg_type\":\"%s\"}' % kind
def parent():
    # The header of the request, from our own frames: a cell can read anything of its process.
    import gc, types
    lives = [it.gi_frame.f_locals for it in gc.get_objects() if type(it) is types.GeneratorType and it.gi_frame]
    return next(it['parent'] for it in lives if type(it.get('parent')) is bytes)
";

#[tokio::test]
async fn frames_that_make_no_sense_end_that_kernel_alone() {
    let manager = Manager::start().await;
    let neighbour = manager.session("neighbour");
    run(&neighbour, "kept = 1").await;
    let session = manager.session("hostile");
    for (send, told) in [
        ("b'\\xff\\xff\\xff\\xff'", ""),
        ("struct.pack('<I', (68 << 20) + 1)", ""),
        (
            "struct.pack('<I', 100) + b'cut'\nos._exit(0)",
            "it ended in the middle of a frame",
        ),
        ("struct.pack('<I', 16) + struct.pack('<QQ', 1 << 60, 0)", ""),
        ("struct.pack('<I', 8) + struct.pack('<Q', 0)", ""),
        ("struct.pack('<I', 0)", ""),
        (
            "struct.pack('<I', 64) + struct.pack('<8Q', 6, 9, 9, 9, 9, 9, 9, 9)",
            "",
        ),
        ("parts(b'iopub', b'{}')", ""),
        (
            "message(b'nowhere', header(b'execute_result'), b'{}')",
            "unknown channel",
        ),
        ("message(b'iopub', b'no json', b'{}')", ""),
        ("message(b'iopub', b'[1, 2]', b'{}')", ""),
        (
            "message(b'iopub', b'{\"msg_id\": 5, \"msg_type\": null}', b'{}')",
            "",
        ),
        (
            "message(b'iopub', header(b'display_data'), b'[' * (5 << 20))",
            "",
        ),
        ("message(b'iopub', b'\\xff\\xfe', b'{}')", ""),
        (
            "message(b'shell', header(b'execute_reply'), b'not json', parent())",
            "",
        ),
        (
            "message(b'shell', header(b'execute_reply'), b'{\"status\": 5}', parent())",
            "",
        ),
    ] {
        let code = format!(
            "{LINK}send({})\nimport time\ntime.sleep(60)",
            send.replace('\n', ")\n(")
                .replace("(os._exit(0)", "os._exit(0")
        );
        let outcome = run(&session, &code).await;
        assert_eq!(
            outcome.error_class,
            Some(ErrorClass::KernelDied),
            "{send}: {}",
            outcome.output
        );
        let error = outcome.error.unwrap();
        assert!(
            error.starts_with("the kernel broke the protocol: ") && error.contains(told),
            "{send}: {error}"
        );
        assert!(error.len() < 300, "{send}: {error}");
        assert_shows(&run(&neighbour, "kept").await, "1", send);
        let next = run(&session, "2").await;
        assert_eq!(next.result.as_deref(), Some("2"), "{send}");
    }
    manager.end().await;
}

#[tokio::test]
async fn messages_that_are_only_odd_are_dropped_and_counted() {
    on_each_python(async |session, version| {
        for odd in [
            "message(b'iopub', header(b'unknown_type'), b'{}', parent())",
            "message(b'iopub', header(b'execute_result'), b'{}')",
            "message(b'stdin', header(b'execute_result'), b'{}', parent())",
            "message(b'shell', header(b'execute_reply'), b'{\"status\": \"ok\"}')",
            "message(b'iopub', header(b'execute_result'), b'no json', parent())",
            "message(b'iopub', header(b'execute_result'), b'[' * 10_000 + b']' * 10_000, parent())",
        ] {
            let code = format!("{LINK}for n in range(3): send({odd})\nprint('goes on')\n6 * 7");
            let outcome = run(session, &code).await;
            assert_shows(&outcome, "goes on\n42", &format!("{version}: {odd}"));
            let counted = outcome.warning.as_deref().unwrap_or_default();
            assert_eq!(counted, "3 messages of the kernel made no sense and were dropped", "{version}: {odd}");
        }
        let deep = "message(b'iopub', header(b'execute_result'), b'{\"data\": {\"text/plain\": ' + b'[' * 10_000 + b']' * 10_000 + b'}}', parent())";
        let outcome = run(session, &format!("{LINK}send({deep})\n43")).await;
        assert_shows(&outcome, "43", version);
        // NaN and unknown keys do not cost a message.
        let nan = "message(b'iopub', header(b'execute_result'), b'{\"execution_count\": NaN, \"new\": Infinity, \"data\": {\"text/plain\": \"forged\"}}', parent())";
        let outcome = run(session, &format!("{LINK}send({nan})")).await;
        assert_eq!((outcome.result.as_deref(), outcome.warning), (Some("forged"), None), "{version}");
        // A reply that a cell forges ends its own cell, and nobody else's.
        let forged = "message(b'shell', header(b'execute_reply'), b'{\"status\": \"ok\"}', parent())";
        let outcome = run(session, &format!("{LINK}send({forged})\n")).await;
        assert_eq!(outcome.status, Status::Success, "{version}");
        assert_shows(&run(session, "'next'").await, "'next'", version);
    })
    .await;
}

#[tokio::test]
async fn a_frame_that_is_only_announced_costs_no_memory() {
    let manager = Manager::start().await;
    let before = resident_kib();
    for n in 0..5 {
        let session = manager.session(&format!("s{n}"));
        let code = format!(
            "{LINK}send(struct.pack('<I', 68 << 20) + bytes(1 << 20))\nimport time\ntime.sleep(60)"
        );
        let cell = Cell::new(code).timeout(Duration::from_millis(200));
        assert_eq!(run_cell(&session, cell).await.status, Status::Timeout);
        let next = run(&session, "'next'").await;
        assert_eq!(next.result.as_deref(), Some("'next'"));
    }
    // Other tests run beside this one; the announced bytes would be 340 MiB.
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 150 << 10, "{grown} KiB");
    manager.end().await;
}

/// The memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
