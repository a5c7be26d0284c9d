//! A ledger on a disk that takes nothing more: what the next manager tells is not told as all.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warmcell::config::Settings;
use warmcell::session::{Registry, Session};

use crate::lifecycle_support::{json, until};
use crate::support::{Place, python, run};

/// A file system of its own, of 64 kB.
struct Disk {
    place: Place,
    root: PathBuf,
}

impl Disk {
    /// `None` where this user may not mount one.
    fn new() -> Option<Self> {
        let place = Place::new();
        let root = place.folder.path().join("disk");
        fs::create_dir(&root).unwrap();
        let disk = Self { place, root };
        let mounted = disk.mount(&["-t", "tmpfs", "-o", "size=64k,mode=0700", "none"]);
        if !mounted {
            eprintln!("NOT TESTED: no file system can be mounted here (needs root)");
        }
        mounted.then_some(disk)
    }

    fn mount(&self, words: &[&str]) -> bool {
        let mut command = self.place.command("mount");
        command
            .args(words)
            .arg(&self.root)
            .stderr(std::process::Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn read_only(&self, is: bool) {
        assert!(self.mount(&["-o", if is { "remount,ro" } else { "remount,rw" }]));
    }

    fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    /// Leaves no byte.
    fn fill(&self) {
        use std::io::Write;

        let mut file = fs::File::create(self.root.join("filler")).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.root.join("filler")).unwrap();
    }

    async fn manager(&self) -> Registry {
        Registry::start(Settings {
            ledger: Some(self.ledger()),
            ..self.place.settings()
        })
        .await
        .unwrap()
    }

    fn session(&self, registry: &Registry, name: &str) -> Session {
        registry
            .session(name, &self.place.caller(python()))
            .unwrap()
    }

    fn record(&self, name: &str) -> Value {
        let bytes = fs::read(self.ledger().join(name)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Waits until a cell's result says that the record is not kept.
    async fn warned(&self, session: &Session, what: &str) {
        let record = self.ledger().join("a.json");
        for _ in 0..200 {
            let outcome = run(session, "import time; time.sleep(0.05)").await;
            let Some(warning) = outcome.warning else {
                continue;
            };
            let start = format!(
                "what this session holds cannot be noted in {}: ",
                record.display()
            );
            assert!(warning.starts_with(&start), "{warning}");
            assert!(warning.contains(what), "{warning}");
            let end = "if its manager is killed, the next one cannot say all that was lost";
            assert!(warning.ends_with(end), "{warning}");
            return;
        }
        panic!("no result has told it");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut command = self.place.command("umount");
        command
            .arg("-l")
            .arg(&self.root)
            .stderr(std::process::Stdio::null());
        drop(command.status());
    }
}

/// The kernel of the first cell of the next manager.
async fn next(disk: &Disk, ledger: &Path) -> Value {
    let registry = Registry::start(Settings {
        ledger: Some(ledger.to_owned()),
        ..disk.place.settings()
    })
    .await
    .unwrap();
    let told = json(&run(&disk.session(&registry, "a"), "1").await);
    registry.shut_down().await;
    told
}

/// The ledger with its modes and lengths, as a manager that is killed now leaves it.
fn as_if_killed(disk: &Disk, name: &str) -> PathBuf {
    let copy = disk.place.folder.path().join(name);
    let mut command = disk.place.command("cp");
    assert!(
        command
            .arg("-a")
            .arg(disk.ledger())
            .arg(&copy)
            .status()
            .unwrap()
            .success()
    );
    copy
}

#[tokio::test]
async fn a_record_that_could_not_be_kept_on_a_full_disk_is_not_told_as_all() {
    let Some(disk) = Disk::new() else { return };
    let registry = disk.manager().await;
    let one = disk.session(&registry, "a");
    run(&one, "x = 1").await;
    until("the record", || disk.record("a.json")["lost"]["cells"] == 1).await;
    disk.fill();
    disk.warned(&one, "No space left on device").await;
    run(&one, "y = 1").await;
    let told = next(&disk, &as_if_killed(&disk, "full")).await;
    assert_eq!(
        told["output"],
        "[new kernel: the previous one was lost (manager_restarted; its record could not be kept \
         after cell 1: more may be lost); gone: x]\n1"
    );
    assert_eq!(
        told["kernel"]["lost"],
        json!({
            "cells": 1, "names": [{"name": "x", "type": "int"}], "names_total": 1, "at_least": true
        })
    );
    // With room again the record is whole again.
    disk.empty();
    run(&one, "z = 1").await;
    until("the record", || {
        disk.record("a.json")["lost"]["names_total"] == 4
    })
    .await;
    let told = next(&disk, &as_if_killed(&disk, "room")).await;
    assert_eq!(told["kernel"]["lost"]["names_total"], 4);
    assert_eq!(told["kernel"]["lost"].get("at_least"), None);
    assert_eq!(told["kernel"]["reason"], "manager_restarted");
    registry.shut_down().await;
    disk.place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_session_of_which_nothing_could_be_noted_is_told_as_lost() {
    let Some(disk) = Disk::new() else { return };
    let registry = disk.manager().await;
    disk.fill();
    let one = disk.session(&registry, "a");
    disk.warned(&one, "No space left on device").await;
    let told = next(&disk, &as_if_killed(&disk, "full")).await;
    assert_eq!(
        told["output"],
        "[new kernel: the previous one was lost (manager_restarted; its record could not be kept: \
         what is lost is not known)]\n1"
    );
    assert_eq!(told["kernel"]["reason"], "manager_restarted");
    assert_eq!(
        told["kernel"]["lost"],
        json!({"cells": 0, "names": [], "names_total": 0, "at_least": true})
    );
    // Closed in good order nothing is left.
    one.close().await;
    assert!(!disk.ledger().join("a.json").exists());
    registry.shut_down().await;
    disk.place.assert_no_survivors().await;
}

#[tokio::test]
async fn a_record_on_a_disk_that_became_read_only_is_not_told_as_all() {
    let Some(disk) = Disk::new() else { return };
    let registry = disk.manager().await;
    let one = disk.session(&registry, "a");
    run(&one, "x = 1").await;
    until("the record", || disk.record("a.json")["lost"]["cells"] == 1).await;
    disk.read_only(true);
    disk.warned(&one, "Read-only file system").await;
    // The next manager finds it as it is.
    let told = next(&disk, &disk.ledger()).await;
    assert_eq!(told["kernel"]["lost"]["at_least"], true, "{told}");
    assert_eq!(told["kernel"]["lost"]["names"][0]["name"], "x");
    // It says so itself, as soon as it has seen it.
    let again = disk.manager().await;
    disk.warned(&disk.session(&again, "a"), "Read-only file system")
        .await;
    again.shut_down().await;
    disk.read_only(false);
    registry.shut_down().await;
    disk.place.assert_no_survivors().await;
}
