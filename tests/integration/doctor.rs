//! `warmcell doctor`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command_kit::assert_nothing_left;
use crate::server_kit::{Home, parts};
use crate::support::{Place, python, text};

/// What it says as JSON, with its exit code.
fn doctor(place: &Place, path: Option<&str>) -> (i32, Value) {
    let mut command = place.warmcell(&["doctor", "--json"]);
    let own = python().parent().unwrap().display().to_string();
    let path = path.map_or(format!("{own}:/usr/bin:/bin:{}", place.mark), str::to_owned);
    let output = command.env("PATH", path).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    let told = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), told)
}

fn finding<'a>(told: &'a Value, name: &str) -> &'a Value {
    let checks = told["checks"].as_array().unwrap();
    checks.iter().find(|it| it["name"] == name).unwrap()
}

#[tokio::test]
async fn what_is_in_force_is_told_and_nothing_stays() {
    let place = Place::new();
    let (code, told) = doctor(&place, None);
    assert_eq!((code, told["ok"].as_bool()), (0, Some(true)), "{told}");
    let found = finding(&told, "python");
    assert_eq!(found["state"], "ok");
    let version = found["data"]["python"]["version"].as_str().unwrap();
    assert!(version.starts_with("3."), "{version}");
    assert_eq!(found["data"]["python"]["source"], "PATH");
    assert_eq!(
        finding(&told, "version")["data"]["warmcell"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(finding(&told, "limits")["data"]["timeout"], 300.0);
    assert_eq!(finding(&told, "limits")["data"]["max_tool_calls"], 50);
    assert_eq!(
        finding(&told, "home")["data"]["path"],
        place.home().display().to_string()
    );
    assert_eq!(finding(&told, "home")["data"]["writable"], true);
    assert!(
        finding(&told, "kernel")["says"]
            .as_str()
            .unwrap()
            .contains("has answered")
    );
    for name in ["platform", "runtime", "managers", "protection", "files"] {
        assert_eq!(finding(&told, name)["state"], "ok", "{told}");
    }
    for name in ["sandbox", "backends"] {
        let says = finding(&told, name)["says"].as_str().unwrap();
        assert!(says.contains("this version has no"), "{says}");
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn lines_for_people_say_what_fails_and_what_mends_it() {
    let place = Place::new();
    fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::create_dir(place.home().join("logs")).unwrap();
    let config = "code_execution: {mode: strcit}\n";
    fs::write(place.home().join("config.yaml"), config).unwrap();
    fs::set_permissions(place.home().join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = place.warmcell(&["doctor"]);
    let output = command
        .env("PATH", format!("/nonexistent:{}", place.mark))
        .output()
        .unwrap();
    let (code, out, err) = parts(&output);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let logs = place.home().join("logs").display().to_string();
    for wanted in [
        "FAILED  python ".to_owned(),
        "PATH: nothing there".to_owned(),
        "mend: install Python 3.8 or newer".to_owned(),
        format!("FAILED  home        {logs} is not used: "),
        format!("mend: chmod 700 {logs}\n"),
        "ok      protection".to_owned(),
        "FAILED  config ".to_owned(),
        "4 checks failed\n".to_owned(),
    ] {
        assert!(out.contains(&wanted), "{wanted}: {out}");
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_python_that_was_passed_over_is_told_with_the_reason() {
    let place = Place::new();
    let venv = place.work().join("venv/bin");
    fs::create_dir_all(&venv).unwrap();
    symlink("/nowhere/python3", venv.join("python")).unwrap();
    let mut command = place.warmcell(&["doctor", "--json"]);
    let own = python().parent().unwrap().display().to_string();
    let output = command
        .env("PATH", format!("{own}:{}", place.mark))
        .env("VIRTUAL_ENV", place.work().join("venv"))
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let found = finding(&told, "python");
    assert_eq!(found["data"]["rungs"][0]["verdict"], "dangling", "{found}");
    assert_eq!(found["data"]["python"]["source"], "PATH", "{found}");
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn a_home_that_is_not_there_or_none_is_told() {
    let place = Place::new();
    let run = |home: &std::path::Path| {
        let mut command = place.warmcell(&["doctor", "--json"]);
        let own = python().parent().unwrap().display().to_string();
        command
            .env("PATH", format!("{own}:{}", place.mark))
            .env("HERMES_HOME", home);
        let output = command.output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            finding(&told, "home").clone(),
        )
    };
    let file = place.work().join("file");
    fs::write(&file, "").unwrap();
    let (code, found) = run(&file);
    assert_eq!(
        (code, found["state"].as_str()),
        (1, Some("failed")),
        "{found}"
    );
    assert_eq!(found["mend"], "set HERMES_HOME to another one");
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn managers_are_told_and_none_is_started() {
    let home = Home::new();
    let (_, told) = doctor(&home.place, None);
    assert!(
        finding(&told, "managers")["says"]
            .as_str()
            .unwrap()
            .starts_with("none runs")
    );
    assert!(!home.has_door());
    home.run(&["exec", "-s", "one", "1"]);
    let (code, told) = doctor(&home.place, None);
    assert_eq!(code, 0, "{told}");
    let found = finding(&told, "managers");
    assert_eq!(found["data"][0]["pid"], home.server());
    assert_eq!(found["data"][0]["sessions"], 1);
    home.end().await;
}

/// A Python that never answers is given up in time, and ended.
#[tokio::test]
async fn a_python_that_hangs_holds_nobody_up() {
    let place = Place::new();
    let bin = place.work().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("python3"), "#!/bin/sh\nexec sleep 100\n").unwrap();
    fs::set_permissions(bin.join("python3"), fs::Permissions::from_mode(0o755)).unwrap();
    let began = Instant::now();
    let path = format!("{}:/usr/bin:/bin:{}", bin.display(), place.mark);
    let (code, told) = doctor(&place, Some(&path));
    assert_eq!(code, 1, "{told}");
    assert_eq!(finding(&told, "python")["state"], "failed");
    assert!(began.elapsed() < Duration::from_secs(25));
    place.assert_no_survivors().await;
}
