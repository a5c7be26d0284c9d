//! What somebody removes below a manager that lives is made again, as private as it was, when it is
//! needed next; what is put in its place is not followed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use warmcell::config::{Caller, Settings};
use warmcell::session::{Registry, Session};

use crate::lifecycle_support::until;
use crate::server_kit::Home;
use crate::support::{Place, python, run};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn record(ledger: &Path) -> Value {
    let bytes = fs::read(ledger.join("a.json")).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// A manager whose ledger stands where that of a background server does.
async fn manager(place: &Place) -> (Registry, Session, PathBuf) {
    let ledger = place.home().join("warmcell/sessions");
    let settings = Settings {
        ledger: Some(ledger.clone()),
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    let session = registry.session("a", &place.caller(python())).unwrap();
    (registry, session, ledger)
}

/// A caller whose kernels need a forkserver of their own.
fn another(place: &Place) -> Caller {
    let mut caller = place.caller(python());
    caller
        .environment
        .push(("LC_MESSAGES".to_owned(), "C".to_owned()));
    caller
}

fn sources(place: &Place) -> PathBuf {
    let cache = place.home().join("cache/warmcell");
    let mut entries = fs::read_dir(&cache).unwrap().flatten();
    let folder = entries.next().unwrap().path();
    assert!(entries.next().is_none());
    folder
}

#[tokio::test]
async fn a_ledger_that_is_removed_is_made_again() {
    let place = Place::new();
    let (registry, one, ledger) = manager(&place).await;
    let other = registry.session("b", &place.caller(python())).unwrap();
    run(&one, "x = 1").await;
    run(&other, "1").await;
    until("the records", || {
        record(&ledger)["lost"]["cells"] == 1 && ledger.join("b.json").exists()
    })
    .await;
    fs::remove_dir_all(place.home()).unwrap();
    let told = run(&one, "y = 1").await;
    assert_eq!(told.warning, None);
    until("the record", || record(&ledger)["lost"]["cells"] == 2).await;
    assert_eq!(record(&ledger)["lost"]["names_total"], 2);
    // That of a session which does nothing, too.
    until("the other record", || ledger.join("b.json").exists()).await;
    for (path, expected) in [
        (place.home(), 0o700),
        (place.home().join("warmcell"), 0o700),
        (ledger.clone(), 0o700),
        (ledger.join("a.json"), 0o600),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(run(&one, "1").await.warning, None);
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

/// One that could not be had when its manager started is there once it can.
#[tokio::test]
async fn a_ledger_that_could_not_be_made_is_made_when_it_can() {
    let place = Place::new();
    fs::write(place.home().join("warmcell"), "").unwrap();
    let (registry, one, ledger) = manager(&place).await;
    let warning = run(&one, "x = 1").await.warning.unwrap_or_default();
    assert!(warning.contains("cannot be noted in "), "{warning}");
    fs::remove_file(place.home().join("warmcell")).unwrap();
    assert_eq!(run(&one, "y = 1").await.warning, None);
    until("the record", || record(&ledger)["lost"]["names_total"] == 2).await;
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_link_or_an_open_folder_in_place_of_a_ledger_is_refused() {
    let place = Place::new();
    let (registry, one, ledger) = manager(&place).await;
    run(&one, "x = 1").await;
    until("the record", || record(&ledger)["lost"]["cells"] == 1).await;
    let elsewhere = place.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    for (put, reason) in [
        (
            Box::new(|| symlink(&elsewhere, &ledger).unwrap()) as Box<dyn Fn()>,
            "it is a link or a file, not a folder",
        ),
        (
            Box::new(|| {
                fs::create_dir(&ledger).unwrap();
                fs::set_permissions(&ledger, fs::Permissions::from_mode(0o755)).unwrap();
            }),
            "it is open to other users",
        ),
    ] {
        fs::remove_dir_all(&ledger)
            .or_else(|_| fs::remove_file(&ledger))
            .unwrap();
        put();
        let mut warnings = Vec::new();
        for _ in 0..20 {
            warnings.extend(run(&one, "import time; time.sleep(0.02)").await.warning);
        }
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(reason), "{warnings:?}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        if ledger.is_dir() && !ledger.is_symlink() {
            assert_eq!(fs::read_dir(&ledger).unwrap().count(), 0);
            fs::set_permissions(&ledger, fs::Permissions::from_mode(0o700)).unwrap();
        } else {
            fs::remove_file(&ledger).unwrap();
        }
        // Out of the way, it goes on; and what comes next is told again.
        run(&one, "y = 1").await;
        until("the record", || record(&ledger)["lost"]["names_total"] == 3).await;
    }
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_cache_that_is_removed_is_made_again() {
    let place = Place::new();
    let (registry, one, _ledger) = manager(&place).await;
    run(&one, "x = 1").await;
    let folder = sources(&place);
    // A kernel that lives gets what it has not imported yet.
    fs::remove_dir_all(place.home().join("cache")).unwrap();
    let shown = run(
        &one,
        "display(x)\nimport sys, subprocess\n\
         subprocess.run([sys.executable, '-c', 'import hermes_tools'], check=True)",
    )
    .await;
    assert_eq!(shown.error, None, "{shown:?}");
    assert_eq!(sources(&place), folder);
    // A further forkserver starts.
    for removed in ["cache", "cache/warmcell"] {
        fs::remove_dir_all(place.home().join(removed)).unwrap();
        let name = format!("after-{}", removed.len());
        let mut caller = another(&place);
        caller
            .environment
            .push(("LC_TIME".to_owned(), name.clone()));
        let other = registry.session(&name, &caller).unwrap();
        let outcome = run(&other, "1").await;
        assert_eq!(outcome.output, "1", "{outcome:?}");
        assert_eq!(sources(&place), folder);
        for path in [
            &place.home().join("cache"),
            &place.home().join("cache/warmcell"),
            &folder,
        ] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
    }
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

/// Also one of which a part is missing, as after a sweep of old files.
#[tokio::test]
async fn a_cache_with_holes_is_mended_for_the_next_forkserver() {
    let place = Place::new();
    let (registry, one, _ledger) = manager(&place).await;
    run(&one, "x = 1").await;
    fs::remove_file(sources(&place).join("_warmcell/kernel.py")).unwrap();
    let other = registry.session("b", &another(&place)).unwrap();
    let outcome = run(&other, "1").await;
    assert_eq!(outcome.output, "1", "{outcome:?}");
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_link_in_place_of_a_cache_is_not_written_through() {
    let place = Place::new();
    let (registry, one, _ledger) = manager(&place).await;
    run(&one, "x = 1").await;
    let cache = place.home().join("cache/warmcell");
    fs::remove_dir_all(&cache).unwrap();
    let elsewhere = place.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, &cache).unwrap();
    // In the next of the places.
    let other = registry.session("b", &another(&place)).unwrap();
    let outcome = run(&other, "terminal('true')['exit_code']").await;
    assert_eq!(outcome.output, "0", "{outcome:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_server_whose_home_is_made_again_still_says_what_was_lost_with_it() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "precious = [1]"]);
    fs::remove_dir_all(home.place.home()).unwrap();
    fs::create_dir(home.place.home()).unwrap();
    let (code, _, err) = home.run(&["exec", "-s", "a", "more = 1"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let ledger = home.place.home().join("warmcell/sessions");
    until("the record", || record(&ledger)["lost"]["names_total"] == 2).await;
    // Another Python in the same server.
    let mut other = home.command(&["exec", "-s", "b", "1"]);
    other.env("LC_TIME", "C");
    let (code, out, err) = crate::server_kit::parts(&crate::support::finish(&mut other));
    assert_eq!((code, out.as_str()), (0, "1\n"), "{err}");
    home.ended_by(rustix::process::Signal::KILL).await;
    let result = home.json("a", "1");
    assert_eq!(result["kernel"]["reason"], "manager_restarted", "{result}");
    assert_eq!(result["kernel"]["lost"]["names_total"], 2);
    home.end().await;
}
