//! What a reader sees of what cells write: without control sequences where they mean nothing, without
//! secrets, without the states that were drawn over.

use warmcell::execution::Status;
use warmcell::session::Cell;

use crate::support::{Manager, Place, assert_shows, finish, python, run, run_live, text};

/// A token as GitHub makes them, put together in the cell: its source must not hold it.
const TOKEN: &str = "t = 'ghp_' + '16C7e42F292c6912E7710c838347Ae178B4a'\n";
const MASKED: &str = "[redacted:github-token]";

fn json(output: &[u8]) -> serde_json::Value {
    serde_json::from_slice(output).unwrap()
}

#[tokio::test]
async fn a_secret_is_masked_wherever_a_reader_could_see_it() {
    let manager = Manager::start().await;
    let session = manager.session("masked");
    for (code, shown, count) in [
        ("print(t)", format!("{MASKED}\n"), 1),
        ("t", format!("'{MASKED}'"), 1),
        (
            "import os\nos.write(1, t[:9].encode()); os.write(1, t[9:].encode()); None",
            MASKED.into(),
            1,
        ),
        (
            "import os\nos.system('echo ' + t); None",
            format!("{MASKED}\n"),
            1,
        ),
        (
            "import sys\nprint(t, file=sys.stderr)",
            format!("--- stderr ---\n{MASKED}\n"),
            1,
        ),
        (
            "display({'text/html': '<b>' + t, 'text/plain': t}, raw=True)",
            format!("{MASKED}\n"),
            2,
        ),
        (
            "print('\\x1b[1m' + t[:9] + '\\x1b[31m' + t[9:] + '\\x1b[0m')",
            format!("{MASKED}\n"),
            1,
        ),
    ] {
        let code = format!("{TOKEN}{code}");
        let (outcome, seen) = run_live(&session, Cell::new(code.clone())).await;
        assert_shows(&outcome, &shown, &code);
        assert_eq!(outcome.redacted, count, "{code}");
        assert!(!text(&seen).contains("ghp_"), "{code}: {}", text(&seen));
        let result = outcome.result.unwrap_or_default();
        assert!(!result.contains("ghp_"), "{code}: {result}");
    }
    let outcome = run(&session, &format!("{TOKEN}raise ValueError(t)")).await;
    assert_eq!(outcome.status, Status::Error);
    let error = outcome.error.clone().unwrap_or_default();
    assert_eq!(error, format!("ValueError: {MASKED} (<cell 8>, line 2)"));
    assert!(!format!("{outcome:?}").contains("ghp_"), "{outcome:?}");
    let outcome = run(&session, &format!("{TOKEN}import sys\nsys.exit(t)")).await;
    assert!(!format!("{outcome:?}").contains("ghp_"), "{outcome:?}");
    assert!(outcome.redacted > 0);
    // Nothing is masked where nothing is secret, and then no word is said of it.
    let outcome = run(&session, "print('MAX_TOKENS = 100')").await;
    assert_eq!(
        (outcome.output.as_str(), outcome.redacted),
        ("MAX_TOKENS = 100\n", 0)
    );
    manager.end().await;
}

#[tokio::test]
async fn what_is_printed_between_cells_is_masked_too() {
    let manager = Manager::start().await;
    let session = manager.session("between");
    let code = format!(
        "{TOKEN}import threading, os\nr, w = os.pipe()\n\
         def late():\n    os.read(r, 1)\n    os.write(1, t.encode()); done.set()\n\
         done = threading.Event(); thread = threading.Thread(target=late); thread.start()"
    );
    run(&session, &code).await;
    // It prints as this cell begins to wait, or before the next.
    let outcome = run(&session, "os.write(w, b'x'); done.wait(10)").await;
    let next = run(&session, "thread.join()").await;
    let told = format!("{outcome:?}{next:?}");
    assert!(told.contains(MASKED) && !told.contains("ghp_"), "{told}");
    manager.end().await;
}

#[tokio::test]
async fn a_secret_across_any_border_of_a_long_output_is_masked() {
    let manager = Manager::start().await;
    let session = manager.session("borders");
    // One in each 4,093 bytes: over borders of pipes, pages and blocks, at each place within it.
    let code = format!(
        "{TOKEN}import os\nblock = b' ' * (4093 - len(t)) + t.encode()\n\
         data = block * 256\nwhile data:\n    data = data[os.write(1, data[:65_521]):]"
    );
    let (outcome, seen) = run_live(&session, Cell::new(code)).await;
    let seen = text(&seen);
    assert_eq!(outcome.redacted, 256);
    assert_eq!(seen.matches(MASKED).count(), 256);
    assert!(!seen.contains("ghp_"));
    assert_eq!(outcome.stdout_bytes_total, 4_093 * 256);
    manager.end().await;
}

#[tokio::test]
async fn values_of_variables_that_a_kernel_does_not_get_are_masked() {
    let manager = Manager::start().await;
    let mut caller = manager.place.caller(python());
    let secret = "correct horse 1 battery";
    caller
        .environment
        .push(("MY_PASSWORD".into(), secret.into()));
    let session = manager.registry.session("values", &caller).unwrap();
    let outcome = run(
        &session,
        "import base64\ns = 'correct horse'\nprint(s + ' 1 battery')",
    )
    .await;
    assert_eq!(outcome.output, "[redacted:environment]\n");
    let code = "print(base64.b64encode((s + ' 1 battery').encode()).decode())";
    assert!(
        run(&session, code)
            .await
            .output
            .starts_with("[redacted:environment]")
    );
    manager.end().await;
}

#[tokio::test]
async fn data_on_its_way_to_a_file_or_a_tool_is_not_touched() {
    let manager = Manager::start().await;
    let session = manager.session("data");
    let code = format!(
        "{TOKEN}write_file('a.txt', t)\nwrite_file('b.txt', 'Authorization: Bearer abc123def456')\n\
         terminal('printf %s ' + t + ' > c.txt')\n\
         [open(name).read() == value for name, value in [('a.txt', t), \
         ('b.txt', 'Authorization: ' + 'Bearer ' + 'abc123def456'), ('c.txt', t)]] \
         + [read_file('a.txt')['content'].endswith(t[9:])]"
    );
    let outcome = run(&session, &code).await;
    assert_eq!(
        outcome.result.as_deref(),
        Some("[True, True, True, True]"),
        "{outcome:?}"
    );
    // A marker is what a reader has made of a secret: it would take its place for good.
    let outcome = run(
        &session,
        "r = write_file('a.txt', 'x = [redacted:github-token]')\nprint(r['error'])\nopen('a.txt').read() == t",
    )
    .await;
    assert!(
        outcome
            .output
            .contains("holds [redacted:github-token], which stands in place of a secret"),
        "{}",
        outcome.output
    );
    assert_eq!(outcome.result.as_deref(), Some("True"));
    manager.end().await;
}

#[tokio::test]
async fn a_bar_that_is_drawn_again_and_again_does_not_push_the_rest_out() {
    let manager = Manager::start().await;
    let session = manager.session("bar");
    let code = "print('before')\nfor i in range(10_000):\n    print(f'\\r{i + 1:6} of 10000', end='')\nprint('\\nafter')";
    let outcome = run(&session, code).await;
    assert_eq!(outcome.output, "before\n 10000 of 10000\nafter\n");
    // Each state but the last, and all `\r`.
    let total = "before\n\nafter\n".len() as u64 + 10_000 * 16;
    assert_eq!(outcome.stdout_bytes_total, total);
    assert_eq!(outcome.stdout_bytes_omitted, 10_000 * 16 - 15);
    assert_eq!(
        outcome.stdout_bytes_captured + outcome.stdout_bytes_omitted,
        total
    );
    manager.end().await;
}

#[test]
fn the_command_line_knows_values_again_that_it_does_not_hold() {
    let place = Place::new();
    let code = "import base64\ns = 'correct horse' + ' 1 battery'\nprint(s, base64.b64encode(s.encode()).decode())";
    let masked = "[redacted:environment] [redacted:environment]";
    for session in [&[][..], &["-s", "a"]] {
        let mut command = place.exec(session);
        command
            .arg(code)
            .env("MY_PASSWORD", "correct horse 1 battery");
        let output = finish(&mut command);
        assert!(
            text(&output.stdout).starts_with(masked),
            "{}",
            text(&output.stdout)
        );
    }
    // Another caller of the same session hides other values.
    let mut command = place.exec(&["-s", "a", "print(s, 'another ' + 'Secret 2')"]);
    let output = finish(command.env("OTHER_TOKEN", "another Secret 2"));
    assert_eq!(
        text(&output.stdout),
        "[redacted:environment] [redacted:environment]\n"
    );
    // Neither kernels nor the processes around them hold a value (the command itself has it from whoever
    // started it); kernels see no fingerprint either.
    let mut command = place.exec(&[
        "-s",
        "a",
        "import os, glob\nfor path in glob.glob('/proc/[0-9]*/environ'):\n    try:\n        data = open(path, 'rb').read()\n    except OSError:\n        continue\n    if b'marked' in data and b'warmcell' in (line := open(path.replace('environ', 'cmdline'), 'rb').read()) and b'exec' not in line:\n        print(path)\n'WARMCELL_HIDDEN' in os.environ",
    ]);
    let output = finish(command.env("OTHER_TOKEN", "a marked Secret 3"));
    assert_eq!(text(&output.stdout), "False\n");
    assert!(
        finish(&mut place.warmcell(&["serve", "--stop"]))
            .status
            .success()
    );
}

#[test]
fn the_command_line_masks_and_says_so_unless_it_is_told_not_to() {
    let place = Place::new();
    let code = format!("{TOKEN}print('\\x1b[31m' + t + '\\x1b[0m')");
    let output = finish(&mut place.exec(&[&code]));
    assert_eq!(text(&output.stdout), format!("{MASKED}\n"));
    assert_eq!(
        text(&output.stderr),
        "warmcell: 1 secret was masked as [redacted:KIND]; --no-redact shows all\n"
    );
    let output = finish(&mut place.exec(&["--no-redact", &code]));
    let bare = "ghp_16C7e42F292c6912E7710c838347Ae178B4a\n";
    assert_eq!(
        (text(&output.stdout).as_str(), text(&output.stderr).as_str()),
        (bare, "")
    );
    let outcome = json(&finish(&mut place.exec(&["--json", &code])).stdout);
    assert_eq!(outcome["output"], format!("{MASKED}\n"));
    assert_eq!(outcome["redacted"], 1);
    // A session of the background server.
    let session = ["-s", "a", "--json"];
    let outcome = json(&finish(place.exec(&session).arg(&code)).stdout);
    assert_eq!(
        (&outcome["output"], &outcome["redacted"]),
        (&format!("{MASKED}\n").into(), &1.into())
    );
    let outcome = json(&finish(place.exec(&session).args(["--no-redact", &code])).stdout);
    assert_eq!(
        (&outcome["output"], &outcome["redacted"]),
        (&bare.into(), &serde_json::Value::Null)
    );
    let output = finish(&mut place.exec(&["-s", "a", &code]));
    assert_eq!(text(&output.stdout), format!("{MASKED}\n"));
    assert!(
        finish(&mut place.warmcell(&["serve", "--stop"]))
            .status
            .success()
    );
}

/// What is too long is cut before it is masked: never in the middle of what would be.
#[tokio::test]
async fn no_secret_is_cut_in_two() {
    let manager = Manager::start().await;
    let session = manager.session("cut");
    let key = "import os\nimport hashlib; lines = [hashlib.sha256(b'%d' % n).hexdigest() for n in range(25)]
key = '-----BEGIN RSA ' + 'PRIVATE KEY-----\\n' + '\\n'.join(lines) + '\\n-----END RSA ' + 'PRIVATE KEY-----'
class Shown:
    def __init__(self, text): self.text = text
    def __repr__(self): return self.text";
    run(&session, &format!("{TOKEN}{key}")).await;
    for before in [19_000, 20_000, 20_900] {
        for after in [29_000, 29_300, 30_200] {
            let text = format!("'a ' * ({before} // 2) + key + ' b' * ({after} // 2)");
            for code in [
                format!("Shown({text})"),
                format!("display(Shown({text}))"),
                format!("raise ValueError({text})"),
            ] {
                let outcome = run(&session, &code).await;
                let told = format!("{outcome:?}");
                // A piece of each line of the key.
                let lines = run(&session, "[it[20:60] for it in lines]").await.output;
                for line in lines.split('\'').filter(|it| it.len() == 40) {
                    assert!(!told.contains(line), "{code}: {line}");
                }
            }
        }
    }
    for code in [
        "raise ValueError(('z ' + t + ' ') * 15_000)",
        "Shown(('z ' + t + ' ') * 15_000)",
    ] {
        let outcome = run(&session, code).await;
        let left = outcome.output.replace(MASKED, "");
        for piece in ["ghp_", "16C7e42F", "c6912E77", "0c838347A", "e178B4a"] {
            assert!(!left.contains(piece), "{code}: {piece}");
        }
    }
    manager.end().await;
}
