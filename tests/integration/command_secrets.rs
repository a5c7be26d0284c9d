//! What a cell can read of the manager and the forkserver through `/proc`: nothing that it may not
//! see itself, root or not.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::command_kit::{Running, assert_nothing_left, piped};
use crate::support::{Place, finish, python, text};

/// Looks for two values, each given backwards so that the code does not hold it, in the environment
/// and the memory of the cell's forebears.
const SPY: &str = r#"
import os
def parent(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("PPid:"):
            return int(line.split()[1])
def holds(pid, value):
    found, seen = value in open(f"/proc/{pid}/environ", "rb").read(), 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in open(f"/proc/{pid}/maps"):
            area, rights = line.split()[:2]
            if "r" not in rights or "[v" in line:
                continue
            at, end = (int(it, 16) for it in area.split("-"))
            while at < end:
                try:
                    memory.seek(at)
                    data = memory.read(min(end - at, 1 << 22))
                except (OSError, ValueError):
                    break
                if not data:
                    break
                seen += len(data)
                found = found or value in data
                at += len(data)
    return found, seen > 1_000_000
forks = os.getppid()
manager = parent(forks)
shown, secret = "NWOHS"[::-1].encode(), "TERCES"[::-1].encode()
for pid in (manager, forks):
    print(holds(pid, shown), holds(pid, secret), flush=True)
print(manager)
"#;

#[tokio::test]
async fn a_cell_cannot_read_back_what_it_may_not_see() {
    let place = Place::new();
    let (shown, secret) = ("shown-8d1f0c77a2", "hidden-41c09be3d5");
    let backwards = |word: &str| word.chars().rev().collect::<String>();
    let code = SPY
        .replace("NWOHS", &backwards(shown))
        .replace("TERCES", &backwards(secret));
    let mut command = place.exec(&["-"]);
    command
        .env("LC_SHOWN", shown)
        .env("MY_API_KEY", secret)
        .env("SOMETHING", format!("else-{secret}"))
        .env("https_proxy", format!("http://user:{secret}@proxy.example"));
    let mut child = Running::start(piped(&mut command).stdin(Stdio::piped()));
    let mut stdin = child.0.stdin.take().unwrap();
    stdin.write_all(code.as_bytes()).unwrap();
    drop(stdin);
    let code = child.ended().await;
    let (out, err) = child.printed();
    if rustix::process::getuid().is_root() {
        // The cell sees what is shown: it can look at all.
        let seen = "(True, True) (False, True)\n";
        // The same process from its start to its end: whoever started it can wait for it.
        assert_eq!(out, format!("{seen}{seen}{}\n", child.pid()), "{err}");
        assert_eq!(code, Some(0));
    } else {
        eprintln!("NOT TESTED as root: memory and environment under uid 0");
        assert_eq!(out, "");
        assert!(err.contains("PermissionError"), "{err}");
    }
    assert_nothing_left(&place).await;
}

/// The fresh start that this takes changes nothing else.
#[tokio::test]
async fn a_secret_in_the_environment_changes_nothing_else() {
    let place = Place::new();
    let code = "import os, sys\nprint(os.environ.get('MY_TOKEN'), os.getcwd() == os.environ['PWD'])\n\
                print('é', '%03o' % os.umask(0), sorted(k for k in os.environ if 'XDG' in k))\n\
                sys.exit(7)";
    let line = format!(
        "umask 027; exec \"$0\" exec --python {} \"$1\"",
        python().display()
    );
    let mut command = place.command("/bin/sh");
    command
        .args(["-c", &line, env!("CARGO_BIN_EXE_warmcell"), code])
        .env("MY_TOKEN", "secret")
        .env("LD_BIND_NOW", "1")
        .current_dir(place.work());
    let output = finish(&mut command);
    assert_eq!(
        text(&output.stdout),
        "None True\né 027 ['XDG_RUNTIME_DIR']\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(7));
    // Names in a list of processes are those that were typed.
    let code = "import os\nfor line in open(f'/proc/{os.getppid()}/status'):\n\
                \x20   if line.startswith('PPid:'): manager = line.split()[1]\n\
                print(open(f'/proc/{manager}/comm').read(), end='')\n\
                print(open(f'/proc/{manager}/cmdline').read().split(chr(0))[1])";
    let mut command = place.exec(&[code]);
    let output = finish(command.env("MY_TOKEN", "secret"));
    assert_eq!(text(&output.stdout), "warmcell\nexec\n", "{output:?}");
    // What needs no kernel needs no fresh start either.
    let output = finish(place.warmcell(&["--version"]).env("MY_TOKEN", "secret"));
    assert_eq!(output.status.code(), Some(0));
    assert_nothing_left(&place).await;
}

/// Without `/proc` it cannot start itself anew: it says so, and goes on.
#[tokio::test]
async fn a_start_that_cannot_be_made_anew_is_told() {
    let place = Place::new();
    let hide = "mount -t tmpfs none /proc 2>/dev/null || exit 77; exec \"$0\" exec \"$@\"";
    let mut command = place.command("unshare");
    command
        .args(["-m", "sh", "-c", hide, env!("CARGO_BIN_EXE_warmcell")])
        .args(["--python", "/no/such/python", "1"])
        .env("MY_TOKEN", "secret")
        .current_dir(place.work());
    let unshare = fs::exists("/usr/bin/unshare").unwrap();
    if !unshare || !rustix::process::getuid().is_root() {
        eprintln!("NOT TESTED: no right to take /proc away");
        return;
    }
    let output = finish(&mut command);
    if matches!(output.status.code(), Some(77 | 1)) {
        eprintln!("NOT TESTED: no right to take /proc away");
        return;
    }
    let stderr = text(&output.stderr);
    let told = stderr.matches("cannot be hidden from cells").count();
    assert_eq!(told, 1, "{stderr}");
    assert!(
        !stderr.contains("MY_TOKEN") && !stderr.contains("secret"),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    place.assert_no_survivors().await;
}
