//! Strict mode: an empty private folder for each kernel, which goes with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use warmcell::config::{Caller, Mode, Settings};
use warmcell::session::{Cell, Registry};

use crate::command_kit::{Running, assert_nothing_left, piped};
use crate::lifecycle_support::{json, limited, signal, until, written};
use crate::server_kit::{Home, parts};
use crate::support::{Manager, Place, finish, python, run, run_cell};

fn strict(manager: &Manager) -> Caller {
    Caller {
        mode: Some(Mode::Strict),
        ..manager.place.caller(python())
    }
}

const WHERE: &str = "import os; print(os.getcwd(), end='')";

/// The folders of kernels that are there.
fn folders(place: &Place) -> Vec<PathBuf> {
    let base = place.home().join("cache/strict");
    let managers = fs::read_dir(base).into_iter().flatten().flatten();
    managers
        .flat_map(|manager| fs::read_dir(manager.path()).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .collect()
}

#[tokio::test]
async fn each_kernel_in_strict_mode_has_an_empty_folder_that_goes_with_it() {
    let manager = Manager::start().await;
    let caller = strict(&manager);
    let [one, other] = ["one", "other"].map(|it| manager.registry.session(it, &caller).unwrap());
    let mut places = Vec::new();
    for session in [&one, &other] {
        let outcome = run(session, WHERE).await;
        let place = PathBuf::from(&outcome.output);
        assert!(place.starts_with(manager.place.home()), "{outcome:?}");
        let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        let told = run(session, "os.environ['PWD'] == os.getcwd()").await;
        assert_eq!(told.result.as_deref(), Some("True"));
        // Commands start there, and file tools find what the cell finds.
        let code = "terminal('pwd; touch made')['output'].strip() == os.getcwd(), \
                    write_file('w', 'x')['resolved_path'] == os.path.join(os.getcwd(), 'w'), \
                    sorted(os.listdir()), read_file('w')['content']";
        let told = run(session, code).await;
        let expected = "(True, True, ['made', 'w'], 'x')";
        assert_eq!(told.result.as_deref(), Some(expected), "{told:?}");
        let warning = told.warning.unwrap();
        assert!(warning.contains(&place.display().to_string()), "{warning}");
        assert!(warning.contains("new in it: made, w"), "{warning}");
        assert_eq!(run(session, "1").await.warning, None, "once");
        places.push(place);
    }
    assert_ne!(places[0], places[1]);
    // A caller who is elsewhere does not move it; the next kernel has a folder of its own.
    let elsewhere = Arc::new(Caller {
        cwd: manager.place.folder.path().to_owned(),
        mode: None,
        ..caller.clone()
    });
    let outcome = run_cell(&one, Cell::new(WHERE).caller(Arc::clone(&elsewhere))).await;
    assert_eq!(Path::new(&outcome.output), places[0]);
    run_cell(&one, limited("while True: pass", 300)).await;
    let outcome = run(&one, "import os; os.getcwd(), os.listdir()").await;
    let now = outcome.result.unwrap();
    assert!(now.ends_with("', [])"), "{now}");
    assert!(!now.contains(&places[0].display().to_string()), "{now}");
    until("the end of the first folder", || !places[0].exists()).await;
    // A reset too, and whoever asks for it without a mode keeps it.
    let reset = Cell::new(WHERE).caller(elsewhere).reset();
    let outcome = run_cell(&one, reset).await;
    let after = outcome.output.lines().last().unwrap().to_owned();
    assert!(after.contains("/cache/strict/"), "{after}");
    // A cell cannot be sent elsewhere.
    let sent = run_cell(&one, Cell::new("1").directory("/tmp")).await;
    assert_eq!(json(&sent)["error_class"], "usage");
    assert!(
        sent.error
            .unwrap()
            .contains("has an empty folder of its own")
    );
    drop((one.close().await, other.close().await));
    assert_eq!(folders(&manager.place), [] as [PathBuf; 0]);
    let place = manager.place.home().join("cache/strict");
    manager.end().await;
    assert!(!place.exists() || fs::read_dir(place).unwrap().count() == 0);
}

/// What passes is the same; only folder and Python differ.
#[tokio::test]
async fn strict_mode_passes_what_project_mode_passes() {
    let manager = Manager::start().await;
    let code = "import json, os, resource\nprint(json.dumps([dict(os.environ), \
                resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(0o77)]))";
    let mut seen = Vec::new();
    for mode in [Mode::Project, Mode::Strict] {
        let caller = Caller {
            mode: Some(mode),
            named: vec![("FOO".into(), "1".into())],
            ..manager.place.caller(python())
        };
        let session = manager.registry.session(mode.word(), &caller).unwrap();
        let outcome = run(&session, code).await;
        let mut told: Value = serde_json::from_str(&outcome.output).unwrap();
        let environment = told[0].as_object_mut().unwrap();
        for name in ["PWD", "HERMES_RPC_SOCKET", "HERMES_RPC_TOKEN"] {
            assert!(environment.remove(name).is_some(), "{mode}: {name}");
        }
        seen.push(told);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0][0]["FOO"], "1");
    manager.end().await;
}

#[tokio::test]
async fn the_command_says_what_goes_with_the_kernel_and_nothing_stays() {
    let place = Place::new();
    let code = "import os; open('out.csv', 'w').close(); print(os.getcwd())";
    let output = finish(&mut place.exec(&["--mode", "strict", code]));
    let (code, out, err) = parts(&output);
    assert_eq!(code, 0, "{err}");
    let folder = PathBuf::from(out.trim());
    assert!(err.contains("new in it: out.csv"), "{err}");
    assert!(err.contains(&folder.display().to_string()), "{err}");
    assert!(!folder.exists());
    assert_eq!(folders(&place), [] as [PathBuf; 0]);
    // With a place that is named it is refused, before anything runs.
    let output = finish(&mut place.exec(&["--mode", "strict", "--cwd", "/tmp", "print(1)"]));
    let (code, out, err) = parts(&output);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("(--cwd)") && err.contains("(--mode)"), "{err}");
    let output = finish(&mut place.exec(&["--mode", "strcit", "1"]));
    let (code, _, err) = parts(&output);
    assert_eq!(code, 2);
    assert!(err.contains("`project` or `strict`"), "{err}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_manager_that_is_killed_leaves_no_folder() {
    let place = Place::new();
    let ready = place.work().join("ready");
    let code = format!(
        "import os, time\nos.makedirs('a/b'); open('a/b/c', 'w').close(); os.symlink('/tmp', 'link')\n\
         open({:?}, 'w').write(os.getcwd() + '\\n')\ntime.sleep(300)",
        ready.display().to_string()
    );
    let mut command = place.exec(&["--mode", "strict", &code]);
    let mut child = Running::start(piped(&mut command));
    let folder = PathBuf::from(written(&ready).await);
    assert!(folder.join("a/b/c").exists());
    signal(child.pid(), rustix::process::Signal::KILL);
    child.ended().await;
    until("the end of the folder", || !folder.exists()).await;
    place.assert_no_survivors().await;
    let base = place.home().join("cache/strict");
    until("the end of the manager's", || {
        fs::read_dir(&base).unwrap().count() == 0
    })
    .await;
    assert!(Path::new("/tmp").exists());
}

#[tokio::test]
async fn another_mode_replaces_the_kernel_and_says_so() {
    let home = Home::new();
    let exec = |mode: &[&str], code: &str| {
        let words = [&["exec", "-s", "s", "--json"], mode, &[code]].concat();
        let (_, out, err) = home.run(&words);
        serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out} {err}"))
    };
    let work = home.place.work().display().to_string();
    let told = exec(&[], "import os; x = 1; print(os.getcwd(), end='')");
    assert_eq!(told["output"], work.as_str());
    // The one that is there by another word is no other.
    let told = exec(&["--mode", "project"], "x");
    assert_eq!(told["kernel"]["reused"], true);
    let told = exec(&["--mode", "strict"], "import os; print(os.getcwd())");
    assert_eq!(told["kernel"]["reason"], "replaced", "{told}");
    assert_eq!(told["kernel"]["lost"]["names"][0]["name"], "os");
    let output = told["output"].as_str().unwrap();
    assert!(
        output.contains("replaced: mode strict was asked for"),
        "{output}"
    );
    assert!(output.contains("/cache/strict/"), "{output}");
    // Who says nothing has what there is.
    let told = exec(&[], "print(os.getcwd())");
    assert_eq!(told["kernel"]["reused"], true, "{told}");
    let told = exec(&["--mode", "project"], "import os; print(os.getcwd())");
    assert_eq!(told["kernel"]["reason"], "replaced");
    let output = told["output"].as_str().unwrap();
    assert!(output.ends_with(&format!("{work}\n")), "{output}");
    home.end().await;
}

/// Who could have removed it was killed too; and where the settings say so strict mode needs no asking.
#[tokio::test]
async fn what_a_manager_and_its_forkserver_leave_goes_when_the_next_one_starts() {
    let place = Place::new();
    let ready = place.work().join("ready");
    let code = format!(
        "import os, time\nopen('file', 'w').close()\n\
         open({:?}, 'w').write('%d %s\\n' % (os.getppid(), os.getcwd()))\ntime.sleep(300)",
        ready.display().to_string()
    );
    let mut command = place.exec(&["--mode", "strict", &code]);
    let mut child = Running::start(piped(&mut command));
    let told = written(&ready).await;
    let (forkserver, folder) = told.split_once(' ').unwrap();
    let folder = PathBuf::from(folder);
    // Stopped it cannot see that its kernel has ended.
    signal(child.pid(), rustix::process::Signal::STOP);
    signal(forkserver.parse().unwrap(), rustix::process::Signal::KILL);
    signal(child.pid(), rustix::process::Signal::KILL);
    child.ended().await;
    place.assert_no_survivors().await;
    assert!(folder.join("file").exists());
    let settings = Settings {
        mode: Mode::Strict,
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    until("the end of the folder", || !folder.exists()).await;
    let session = registry.session("s", &place.caller(python())).unwrap();
    let outcome = run(&session, WHERE).await;
    assert!(outcome.output.contains("/cache/strict/"), "{outcome:?}");
    registry.shut_down().await;
    assert_eq!(folders(&place), [] as [PathBuf; 0]);
    place.assert_no_survivors().await;
}
