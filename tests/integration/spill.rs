//! What does not fit the window of a result: all of it in a file that only its user can read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use warmcell::config::Settings;
use warmcell::execution::{Outcome, Status};
use warmcell::session::{Cell, Policy, Registry};

use crate::command_kit::assert_nothing_left;
use crate::foreign_kit::with_ipykernel;
use crate::lifecycle_support::written;
use crate::server_kit::{Home, parts};
use crate::support::{Manager, Place, finish, on_each_python, python, run, run_cell, text};

/// The first example of the contract: both ends, and 200,000 bytes between them.
const ENDS: &str = "print('HEAD', 'x' * 200_000, 'TAIL')";

fn ends() -> String {
    format!("HEAD {} TAIL\n", "x".repeat(200_000))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

/// The kept files of a place.
fn kept(place: &Place) -> Vec<PathBuf> {
    let folder = fs::read_dir(place.home().join("cache/exec"));
    let mut files: Vec<PathBuf> = folder
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The text in the file that a result names, which its reader is told of.
fn spilled(outcome: &Outcome) -> String {
    let path = outcome.stdout_spill_path.as_deref().expect("no path");
    assert!(outcome.output.contains(path), "{}", outcome.output);
    assert_eq!(outcome.warning, None);
    fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn both_ends_are_shown_and_the_whole_is_in_a_private_file() {
    on_each_python(async |session, version| {
        let outcome = run(session, ENDS).await;
        assert_eq!(spilled(&outcome), ends(), "{version}");
        assert!(outcome.output.starts_with("HEAD xxx"), "{version}");
        let path = outcome.stdout_spill_path.clone().unwrap();
        let (_, tail) = outcome.output.split_once("] ...\n\n").unwrap();
        let notice = format!(
            "x TAIL\n[the whole output is in {path}: page it with read_file({path:?}, offset=...); the \
             cell has run and its variables exist, so do not run it again]"
        );
        assert!(tail.ends_with(&notice), "{version}: {tail}");
        let total = ends().len() as u64;
        let numbers = (
            outcome.stdout_bytes_total,
            outcome.stdout_bytes_captured,
            outcome.stdout_bytes_omitted,
        );
        assert_eq!(numbers, (total, 50_000, total - 50_000), "{version}");
        let path = PathBuf::from(path);
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        // As it is said: a cell pages it, and the same again is the same file.
        let page = format!("read_file({path:?})['content'][-6:]");
        assert_eq!(run(session, &page).await.output, "' TAIL\\n'", "{version}");
        let again = run(session, ENDS).await;
        assert_eq!(again.stdout_spill_path, outcome.stdout_spill_path);
        // What is shown whole has no file.
        let small = run(session, "print('x' * 49_999)").await;
        assert_eq!((small.stdout_spill_path, small.stdout_truncated), (None, false));
    })
    .await;
}

#[tokio::test]
async fn what_is_drawn_over_and_displays_stand_in_the_file() {
    let manager = Manager::start().await;
    let session = manager.session("drawn");
    let code = "for n in range(10_000):\n    print(f'\\r\\x1b[1m{n} of 10000\\x1b[0m', end='')\nprint()\n\
                display('shown')\nprint('last')";
    let outcome = run(&session, code).await;
    let states: Vec<String> = (0..10_000).map(|n| format!("\r{n} of 10000")).collect();
    let states = states.concat();
    // It is shown whole, as a terminal shows it: no line speaks of the file.
    assert_eq!(outcome.output, "9999 of 10000\n'shown'\nlast\n");
    let path = outcome.stdout_spill_path.unwrap();
    let file = fs::read_to_string(path).unwrap();
    assert!(file == format!("{states}\n'shown'\nlast\n"));
    manager.end().await;
}

#[tokio::test]
async fn a_secret_is_masked_in_the_file_wherever_it_is_cut() {
    // A megabyte in writes of odd sizes, so that a secret lies across each border of what is read.
    let code = "import os\nt = 'ghp_' + '16C7e42F292c6912E7710c838347Ae178B4a'\n\
                text = ''.join(f'{n:06} {t} {\"x\" * (n % 97)}\\n' for n in range(10_000)).encode()\n\
                at = 0\nsizes = [1, 4095, 65_536, 7, 65_535, 33]\n\
                while at < len(text):\n    n = sizes[at % 6]\n    os.write(1, text[at:at + n]); at += n\n";
    let manager = Manager::start().await;
    let session = manager.session("masked");
    let outcome = run(&session, code).await;
    let wanted: Vec<String> = (0..10_000)
        .map(|n| format!("{n:06} [redacted:github-token] {}\n", "x".repeat(n % 97)))
        .collect();
    let wanted = wanted.concat();
    assert!(spilled(&outcome) == wanted);
    assert_eq!(outcome.redacted, 10_000);
    assert!(!outcome.output.contains("ghp_"));
    // Whoever wants to see it gets it in the file too.
    let cell = Cell {
        unmasked: true,
        ..Cell::new("print(text.decode())")
    };
    assert!(spilled(&run_cell(&session, cell).await).contains(" ghp_16C7"));
    manager.end().await;
}

#[tokio::test]
async fn the_file_is_there_however_the_cell_ends() {
    let manager = Manager::start().await;
    let session = manager.session("ends");
    let flood = "print('HEAD', 'x' * 200_000, 'TAIL', flush=True)\n";
    for (rest, status, told) in [
        (
            "raise ValueError",
            Status::Error,
            "the cell has run and its variables exist",
        ),
        (
            "import sys; sys.exit(3)",
            Status::Error,
            "the cell has run and its variables exist",
        ),
        (
            "while True: pass",
            Status::Timeout,
            "the cell has run, so do not run it again for its output",
        ),
        (
            "import os; os._exit(3)",
            Status::Error,
            "the cell has run, so do not run it again for its output",
        ),
    ] {
        let cell = Cell::new(format!("{flood}{rest}")).timeout(Duration::from_secs(2));
        let outcome = run_cell(&session, cell).await;
        assert_eq!(outcome.status, status, "{rest}");
        assert_eq!(spilled(&outcome), ends(), "{rest}");
        assert!(outcome.output.contains(told), "{rest}: {}", outcome.output);
    }
    for policy in [Policy::Restart, Policy::Interrupt] {
        let begun = manager.place.work().join(format!("{policy:?}"));
        let code = format!("{flood}open({begun:?}, 'w').write('x\\n')\nwhile True: pass");
        let mut execution = session.execute(Cell {
            on_interrupt: Some(policy),
            ..Cell::new(code)
        });
        let interrupt = execution.interrupt_token();
        let (outcome, ()) = tokio::join!(execution.outcome(), async {
            written(&begun).await;
            interrupt.cancel();
        });
        assert_eq!(outcome.status, Status::Interrupted);
        assert_eq!(spilled(&outcome), ends(), "{policy:?}");
    }
    // The same text each time.
    assert_eq!(kept(&manager.place).len(), 1);
    manager.end().await;
}

#[tokio::test]
async fn the_limit_of_the_file_and_its_mark() {
    let place = Place::new();
    let settings = Settings {
        max_stdout_bytes: 100,
        max_spill_bytes: 1_000,
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    let session = registry.session("s", &place.caller(python())).unwrap();
    let outcome = run(&session, "print('x' * 5_000_000)").await;
    let mark = "\n[... the output goes on; max_spill_bytes is 1,000 ...]\n";
    assert_eq!(spilled(&outcome), format!("{}{mark}", "x".repeat(1_000)));
    assert_eq!(outcome.stdout_bytes_total, 5_000_001);
    assert!(
        outcome
            .output
            .contains("[the output up to max_spill_bytes is in ")
    );
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_place_that_will_not_do_costs_the_file_alone() {
    for plant in ["file", "link", "home"] {
        let place = Place::new();
        let cache = place.home().join("cache");
        let elsewhere = place.work().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        match plant {
            "file" => {
                fs::create_dir(&cache).unwrap();
                fs::write(cache.join("exec"), "").unwrap();
            }
            "link" => {
                fs::create_dir(&cache).unwrap();
                std::os::unix::fs::symlink(&elsewhere, cache.join("exec")).unwrap();
            }
            _ => {
                fs::remove_dir(place.home()).unwrap();
                fs::write(place.home(), "").unwrap();
            }
        }
        let output = finish(&mut place.exec(&["--json", ENDS]));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["status"], "success", "{plant}: {outcome}");
        assert_eq!(outcome.get("stdout_spill_path"), None, "{plant}");
        let warning = outcome["warning"].as_str().unwrap();
        let folder = cache.join("exec").display().to_string();
        let what = format!("what the window leaves out of stdout was not kept in {folder}: ");
        assert_eq!(warning.matches(&what).count(), 1, "{plant}: {warning}");
        let told = outcome["output"].as_str().unwrap();
        assert!(
            told.contains("TAIL\n[what is left out above was not kept ("),
            "{plant}"
        );
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{plant}");
        // Whoever leaves nothing out is told nothing of it.
        let output = finish(&mut place.exec(&["--json", "print(1)"]));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        let warning = outcome["warning"].as_str().unwrap_or_default();
        assert!(!warning.contains("not kept"), "{plant}: {warning}");
        assert_nothing_left(&place).await;
    }
}

#[tokio::test]
async fn a_limit_on_files_costs_the_file_alone() {
    let place = Place::new();
    let exec = place.exec(&["--json", "print('x' * 60_000_000)"]);
    let program = exec.get_program().to_str().unwrap();
    let arguments: Vec<&str> = exec.get_args().map(|it| it.to_str().unwrap()).collect();
    let mut limited = place.command("sh");
    limited
        .args(["-c", "ulimit -f 40000; exec \"$@\"", "sh", program])
        .args(&arguments)
        .current_dir(place.work());
    let output = finish(&mut limited);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["status"], "success", "{outcome}");
    assert_eq!(outcome["stdout_bytes_total"], 60_000_001);
    let warning = outcome["warning"].as_str().unwrap();
    assert!(
        warning.contains("raise the limit on the size of files (ulimit -f)"),
        "{warning}"
    );
    assert!(kept(&place).is_empty());
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn what_is_printed_as_it_comes_is_whole_and_needs_no_file() {
    let place = Place::new();
    let code = "for n in range(100_000): print(n, 'é' * 20)";
    let output = finish(&mut place.exec(&[code]));
    let wanted: Vec<String> = (0..100_000)
        .map(|n| format!("{n} {}\n", "é".repeat(20)))
        .collect();
    let wanted = wanted.concat();
    assert!(text(&output.stdout) == wanted);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(kept(&place).is_empty());
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn through_a_door_and_for_those_who_do_not_wait() {
    let home = Home::new();
    let outcome = home.json("far", ENDS);
    let path = |outcome: &Value| outcome["stdout_spill_path"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(path(&outcome)).unwrap(), ends());
    assert!(
        outcome["output"]
            .as_str()
            .unwrap()
            .contains(&path(&outcome))
    );
    // One that goes on is told where its output is, and it stays there.
    let go = home.place.work().join("go");
    let code = format!(
        "import os, time\nprint('x' * 100_000, flush=True)\n\
         while not os.path.exists({go:?}): time.sleep(0.01)\nprint('end')"
    );
    let order = json!({ "code": code, "wait": 1 });
    let running = home.order("far", &order).json();
    assert_eq!(running["status"], "running", "{running}");
    let line = format!("[the whole output so far is in {}: ", path(&running));
    assert!(
        running["output"].as_str().unwrap().contains(&line),
        "{running}"
    );
    fs::write(go, "").unwrap();
    let wait = home.ask("POST", "/warmcell/v1/sessions/far/wait", &json!({}));
    let finished = &wait.lines()[0]["finished"]["outcome"];
    assert_eq!(path(finished), path(&running));
    let whole = fs::read_to_string(path(finished)).unwrap();
    assert!(whole == format!("{}\nend\n", "x".repeat(100_000)));
    // A person who reads along is told nothing of it.
    let (code, out, err) = home.run(&["exec", "-s", "far", ENDS]);
    assert_eq!((code, out.len(), err.as_str()), (0, ends().len(), ""));
    home.end().await;
}

#[tokio::test]
async fn old_files_of_ours_go_with_the_next_one() {
    let place = Place::new();
    let spill = |code: &str| {
        let output = parts(&finish(&mut place.exec(&["--json", code])));
        let outcome: Value = serde_json::from_str(&output.1).unwrap();
        PathBuf::from(outcome["stdout_spill_path"].as_str().unwrap())
    };
    let old = spill("print('a' * 60_000)");
    let folder = old.parent().unwrap();
    // What another program keeps there, with a name of the same form.
    let theirs = folder.join("stdout-0123456789ab.txt");
    fs::write(&theirs, "theirs").unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o600)).unwrap();
    for path in [&old, &theirs] {
        let file = fs::File::options().write(true).open(path).unwrap();
        let week = Duration::from_secs(8 * 86_400);
        file.set_modified(SystemTime::now() - week).unwrap();
    }
    let new = spill("print('b' * 60_000)");
    let mut left = vec![new, theirs];
    left.sort();
    assert_eq!(kept(&place), left);
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn of_a_kernel_that_is_not_ours_too() {
    with_ipykernel(async |_, session, _| {
        let outcome = run(session, ENDS).await;
        assert_eq!(spilled(&outcome), ends());
        assert_eq!(outcome.stdout_bytes_total, ends().len() as u64);
    })
    .await;
}

/// A disk of its own behind the cache, of so many kB; unmounted when dropped.
struct Disk(PathBuf, Place);

impl Disk {
    /// `None` where this user may not mount one.
    fn new(options: &str) -> Option<Self> {
        let place = Place::new();
        let cache = place.home().join("cache");
        fs::create_dir(&cache).unwrap();
        let mut mount = place.command("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&cache);
        if finish(&mut mount).status.success() {
            return Some(Self(cache, place));
        }
        eprintln!("NOT TESTED: no file system can be mounted here (needs root)");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        finish(self.1.command("umount").arg("-l").arg(&self.0));
    }
}

#[tokio::test]
async fn a_disk_that_is_full_or_read_only_is_told_in_the_result() {
    for (options, why, code) in [
        (
            "size=1m,mode=0700",
            "No space left on device",
            "print('x' * 3_000_000)",
        ),
        ("size=1m,mode=0700,ro", "Read-only file system", ENDS),
    ] {
        let Some(disk) = Disk::new(options) else {
            return;
        };
        let place = &disk.1;
        let output = finish(&mut place.exec(&["--json", code]));
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome["status"], "success", "{outcome}");
        let warning = outcome["warning"].as_str().unwrap();
        assert!(warning.contains(why), "{warning}");
        assert_eq!(outcome.get("stdout_spill_path"), None);
        // What was written makes room again.
        assert!(kept(place).is_empty());
        assert_nothing_left(place).await;
    }
}
