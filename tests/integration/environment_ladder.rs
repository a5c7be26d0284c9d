//! Which Python a kernel has: every rung of the ladder, and why one is passed over.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use warmcell::config::{Caller, Settings};
use warmcell::environment::{Source, Verdict, taken};
use warmcell::execution::ErrorClass;
use warmcell::session::{Cell, Registry};

use crate::environment_kit::{PACKAGE, caller, program, two_pythons, venv};
use crate::lifecycle_support::{json, limited};
use crate::server_kit::Home;
use crate::support::{Manager, python, pythons, run, run_cell};

/// Prints the version, and the name that the package gives.
fn who() -> String {
    format!(
        "import sys\ntry:\n    from {PACKAGE} import NAME\nexcept ImportError:\n    NAME = None\n\
         print('%d.%d' % sys.version_info[:2], NAME)"
    )
}

fn printed(version: &str, name: &str) -> String {
    format!("{version} {name}\n")
}

#[tokio::test]
async fn the_project_has_its_own_python_and_strict_mode_has_not() {
    let Some([old, new]) = two_pythons() else {
        return;
    };
    let home = Home::new();
    let work = home.place.work();
    venv(&work.join(".venv"), old, "folder");
    venv(&work.join("env-py"), old, "active");
    venv(&work.join("conda"), old, "conda");
    let who = who();
    let ask = |mode: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command(&["exec"]);
        command.args(mode).arg(&who);
        for (name, value) in variables {
            command.env(name, work.join(value));
        }
        let (code, out, err) = crate::server_kit::parts(&crate::support::finish(&mut command));
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    };
    let active = [("VIRTUAL_ENV", "env-py"), ("CONDA_PREFIX", "conda")];
    assert_eq!(ask(&[], &active), printed(&old.0, "active"));
    assert_eq!(ask(&[], &active[1..]), printed(&old.0, "conda"));
    assert_eq!(ask(&[], &[]), printed(&old.0, "folder"));
    let strict = ["--mode", "strict"];
    assert_eq!(ask(&strict, &active), printed(&new.0, "None"));
    // The folder is that in which the kernel is to run, with a session too.
    let elsewhere = home.place.folder.path().to_owned();
    for session in [&[][..], &["-s", "p"]] {
        let mut command = home.command(&["exec", "--cwd"]);
        command.arg(&work).args(session).arg(&who);
        command.current_dir(&elsewhere);
        let (_, out, err) = crate::server_kit::parts(&crate::support::finish(&mut command));
        assert_eq!(out, printed(&old.0, "folder"), "{err}");
    }
    home.end().await;
}

/// Each way in which an environment may be broken, by the word for it.
fn break_it(root: &Path, word: &str) {
    let python = root.join("bin/python");
    match word {
        "missing" => fs::create_dir_all(root).unwrap(),
        "dangling" => {
            fs::create_dir_all(root.join("bin")).unwrap();
            symlink("/nowhere/python3", &python).unwrap();
        }
        "not_executable" => program(&python, "", 0o644),
        "broken" => program(&python, "#!/bin/sh\necho no good >&2\nexit 3\n", 0o755),
        "hangs" => program(&python, "#!/bin/sh\nexec sleep 300\n", 0o755),
        "relocated" => {
            let newest = pythons().last().unwrap();
            venv(root, newest, "relocated");
            let text = "home = /nowhere/bin\nversion = 3.11.7\n";
            fs::write(root.join("pyvenv.cfg"), text).unwrap();
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_environment_that_will_not_do_is_passed_over_with_its_reason() {
    let manager = Manager::start().await;
    let newest = &pythons().last().unwrap().0;
    for (word, reason) in [
        ("missing", "is not there"),
        (
            "dangling",
            "is a link to /nowhere/python3, which is not there",
        ),
        ("not_executable", "nobody has the right to execute it"),
        ("broken", "exit status: 3; it said: no good"),
        ("relocated", "pyvenv.cfg says home = /nowhere/bin"),
        ("hangs", "did not answer within 5 s"),
    ] {
        let cwd = manager.place.work().join(word);
        let root = cwd.join(".venv");
        break_it(&root, word);
        let asks = caller(&manager.place, &cwd, &[]);
        let session = manager.registry.session(word, &asks).unwrap();
        let told = json(&run(&session, &who()).await);
        let output = told["output"].as_str().unwrap();
        assert!(output.starts_with(&printed(newest, "None")), "{told}");
        let warning = told["warning"].as_str().unwrap();
        let python = root.join("bin/python").display().to_string();
        for words in [python.as_str(), "(from .venv)", reason, "was taken instead"] {
            assert!(warning.contains(words), "{word}: {words:?} in {warning}");
        }
        // For `doctor`: every rung, in order.
        let rungs = manager.registry.pythons(&asks).await.unwrap();
        let sources: Vec<Source> = rungs.iter().map(|rung| rung.source).collect();
        let all = [
            Source::VirtualEnv,
            Source::CondaPrefix,
            Source::DotVenv,
            Source::Path,
        ];
        assert_eq!(sources, all);
        assert_eq!(rungs[0].verdict, Verdict::Empty);
        let Verdict::Unusable(unusable) = &rungs[2].verdict else {
            panic!("{rungs:?}");
        };
        assert_eq!(unusable.word(), word);
        assert_eq!(
            rungs[2].path.as_deref(),
            Some(root.join("bin/python").as_path())
        );
        let (rung, interpreter) = taken(&rungs).unwrap();
        assert_eq!(rung.source, Source::Path);
        assert!(interpreter.version.starts_with(newest), "{interpreter:?}");
        // It is tried again by the next: only what works is remembered.
        if word != "hangs" {
            fs::remove_dir_all(&root).unwrap();
            venv(&root, pythons().last().unwrap(), "mended");
            let next = manager.registry.session(&format!("{word}-2"), &asks);
            let outcome = run(&next.unwrap(), &who()).await;
            assert_eq!(outcome.output, printed(newest, "mended"));
        }
    }
    manager.end().await;
}

#[tokio::test]
async fn what_is_too_old_is_passed_over_with_its_version() {
    let Some(old) = crate::environment_kit::too_old() else {
        return;
    };
    let manager = Manager::start().await;
    let root = manager.place.work().join("old");
    program(
        &root.join("bin/python"),
        &format!("#!/bin/sh\nexec {} \"$@\"\n", old.display()),
        0o755,
    );
    let asks = caller(
        &manager.place,
        &manager.place.work(),
        &[("CONDA_PREFIX", &root)],
    );
    let session = manager.registry.session("s", &asks).unwrap();
    let warning = run(&session, "1").await.warning.unwrap();
    assert!(
        warning.contains("(from CONDA_PREFIX): Python 3."),
        "{warning}"
    );
    assert!(
        warning.contains("is too old, 3.8 is the oldest"),
        "{warning}"
    );
    let rungs = manager.registry.pythons(&asks).await.unwrap();
    let Verdict::Unusable(unusable) = &rungs[1].verdict else {
        panic!("{rungs:?}");
    };
    assert_eq!(unusable.word(), "too_old");
    manager.end().await;
}

#[tokio::test]
async fn where_none_will_do_each_is_told_with_its_reason() {
    let manager = Manager::start().await;
    let work = manager.place.work();
    for (name, word) in [
        ("gone", "dangling"),
        ("conda", "broken"),
        (".venv", "not_executable"),
    ] {
        break_it(&work.join(name), word);
    }
    let asks = Caller {
        environment: vec![
            (
                "VIRTUAL_ENV".into(),
                work.join("gone").display().to_string(),
            ),
            (
                "CONDA_PREFIX".into(),
                work.join("conda").display().to_string(),
            ),
            ("PATH".into(), manager.place.mark.clone()),
        ],
        python: None,
        ..manager.place.caller(python())
    };
    let session = manager.registry.session("s", &asks).unwrap();
    let outcome = run(&session, "1").await;
    assert_eq!(outcome.error_class, Some(ErrorClass::Unavailable));
    let error = outcome.error.unwrap();
    for words in [
        "(from VIRTUAL_ENV): is a link to /nowhere/python3",
        "(from CONDA_PREFIX): did not start",
        "(from .venv): cannot be run",
        "install Python 3.8 or newer",
    ] {
        assert!(error.contains(words), "{words:?} in {error}");
    }
    let rungs = manager.registry.pythons(&asks).await.unwrap();
    assert!(taken(&rungs).is_none());
    assert_eq!(rungs[3].verdict, Verdict::Empty);
    // Named in the settings it is the only one.
    let settings = Settings {
        python: Some(work.join("gone/bin/python")),
        ..manager.place.settings()
    };
    let other = Registry::start(settings).await.unwrap();
    let asks = caller(&manager.place, &work, &[]);
    let outcome = run(&other.session("s", &asks).unwrap(), "1").await;
    let error = outcome.error.unwrap();
    assert!(error.contains("(from code_execution.python)"), "{error}");
    assert!(!error.contains("PATH)"), "{error}");
    other.shut_down().await;
    manager.end().await;
}

/// A broken environment that is activated stands first on the PATH, too.
#[tokio::test]
async fn the_python_on_the_path_of_a_broken_environment_is_no_way_out() {
    let manager = Manager::start().await;
    let work = manager.place.work();
    let root = work.join("env");
    break_it(&root, "broken");
    fs::copy(root.join("bin/python"), root.join("bin/python3")).unwrap();
    let asks = caller(&manager.place, &work, &[("VIRTUAL_ENV", &root)]);
    let mut asks = Caller::clone(&asks);
    let path = asks.environment.iter_mut().find(|(name, _)| name == "PATH");
    let path = &mut path.unwrap().1;
    *path = format!("{}:{path}", root.join("bin").display());
    let outcome = run(&manager.registry.session("s", &asks).unwrap(), &who()).await;
    let newest = &pythons().last().unwrap().0;
    assert!(
        outcome.output.starts_with(&printed(newest, "None")),
        "{outcome:?}"
    );
    manager.end().await;
}

#[tokio::test]
async fn an_environment_that_is_made_anew_is_noticed() {
    let Some([old, new]) = two_pythons() else {
        return;
    };
    let manager = Manager::start().await;
    let work = manager.place.work();
    let root = work.join(".venv");
    venv(&root, old, "first");
    let asks = caller(&manager.place, &work, &[]);
    let first = manager.registry.session("first", &asks).unwrap();
    assert_eq!(run(&first, &who()).await.output, printed(&old.0, "first"));
    let pid = run(&first, "import os; os.getppid()").await.result;
    let same = manager.registry.session("same", &asks).unwrap();
    let shared = run(&same, "import os; os.getppid()").await.result;
    assert_eq!(shared, pid, "one forkserver, as long as nothing changes");
    // The same Python in a new folder: whatever it has loaded is of the old one.
    fs::remove_dir_all(&root).unwrap();
    venv(&root, old, "second");
    let second = manager.registry.session("second", &asks).unwrap();
    assert_eq!(run(&second, &who()).await.output, printed(&old.0, "second"));
    let other = run(&second, "import os; os.getppid()").await.result;
    assert_ne!(other, pid, "the old forkserver has the old environment");
    // Another Python.
    fs::remove_dir_all(&root).unwrap();
    venv(&root, new, "third");
    let third = manager.registry.session("third", &asks).unwrap();
    assert_eq!(run(&third, &who()).await.output, printed(&new.0, "third"));
    // A kernel that lives stays what it is; the next one of its session says that it is another.
    let living = run(&first, "'%d.%d' % sys.version_info[:2]").await;
    assert_eq!(living.result, Some(format!("'{}'", old.0)));
    run_cell(&first, limited("while True: pass", 300)).await;
    let told = run(&first, &who()).await;
    assert!(
        told.output.contains(&printed(&new.0, "third")),
        "{}",
        told.output
    );
    let warning = told.warning.unwrap();
    assert!(
        warning.contains("the Python of this session is another one now"),
        "{warning}"
    );
    manager.end().await;
}

/// A session never changes its Python silently; a reset takes what is there by then.
#[tokio::test]
async fn a_session_whose_python_is_gone_says_so_until_it_is_reset() {
    let manager = Manager::start().await;
    let work = manager.place.work();
    let (root, newest) = (work.join(".venv"), pythons().last().unwrap());
    venv(&root, newest, "here");
    let asks = caller(&manager.place, &work, &[]);
    let session = manager.registry.session("s", &asks).unwrap();
    run(&session, "x = 1").await;
    fs::remove_dir_all(&root).unwrap();
    run_cell(&session, limited("while True: pass", 300)).await;
    let outcome = run(&session, "1").await;
    assert_eq!(outcome.error_class, Some(ErrorClass::Unavailable));
    let error = outcome.error.unwrap();
    assert!(
        error.contains("(from this session): is not there"),
        "{error}"
    );
    assert!(error.contains("reset the session"), "{error}");
    let reset = Cell::new(who()).caller(Arc::clone(&asks)).reset();
    let outcome = run_cell(&session, reset).await;
    assert!(
        outcome.output.contains(&printed(&newest.0, "None")),
        "{outcome:?}"
    );
    // One that has come since is taken by a reset, and by nothing else.
    venv(&root, newest, "back");
    let outcome = run(&session, &who()).await;
    assert_eq!(outcome.output, printed(&newest.0, "None"));
    drop(session.reset().await);
    let outcome = run(&session, &who()).await;
    assert!(
        outcome.output.contains(&printed(&newest.0, "back")),
        "{outcome:?}"
    );
    manager.end().await;
}

/// Two environments of one Python are two, whatever they are called and linked to.
#[tokio::test]
async fn environments_of_one_python_are_told_apart() {
    let manager = Manager::start().await;
    let work = manager.place.work();
    let newest = pythons().last().unwrap();
    let [one, other] = ["env-py311", "other env"].map(|name| {
        let python = venv(&work.join(name), newest, name);
        Arc::new(Caller {
            python: Some(python),
            ..Caller::clone(&caller(&manager.place, &work, &[]))
        })
    });
    assert_eq!(
        fs::canonicalize(one.python.as_ref().unwrap()).unwrap(),
        fs::canonicalize(other.python.as_ref().unwrap()).unwrap()
    );
    let session = manager.registry.session("s", &one).unwrap();
    let prefix = format!("{}; import sys; print(sys.prefix)", "x = 1");
    let by = |who: &Arc<Caller>| Cell::new(prefix.as_str()).caller(Arc::clone(who));
    let first = run_cell(&session, by(&one)).await;
    assert_eq!(
        first.output,
        format!("{}\n", work.join("env-py311").display())
    );
    let second = run_cell(&session, by(&other)).await;
    let expected = format!("{}\n", work.join("other env").display());
    assert!(second.output.ends_with(&expected), "{}", second.output);
    assert_eq!(json(&second)["kernel"]["reason"], "replaced");
    manager.end().await;
}

#[tokio::test]
async fn the_log_says_which_python_was_passed_over_and_why() {
    let home = Home::new();
    let root = home.place.work().join(".venv");
    break_it(&root, "broken");
    let (code, out, err) = home.run(&["exec", "-s", "s", "print(6*7)"]);
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    assert!(err.contains("(from .venv)"), "{err}");
    let log = fs::read_to_string(home.place.home().join("logs/warmcell.log")).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("a Python was passed over"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    for words in ["source=.venv", "it said: no good"] {
        assert!(line.contains(words), "{line}");
    }
    home.end().await;
}
