//! What the system offers.

use std::env;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, dumpable_behavior};
use serde_json::json;

use super::finding::Finding;
use crate::process::{PathWatch, Pidfd, adopt_orphans, memory_file, nofile_limits};

/// Fewer open descriptors than this are not enough for a handful of kernels.
const FEW_DESCRIPTORS: u64 = 256;

pub(super) fn platform() -> Finding {
    let told = format!("{} on {}", env::consts::OS, env::consts::ARCH);
    let data = json!({ "os": env::consts::OS, "arch": env::consts::ARCH });
    match env::consts::OS {
        "linux" => Finding::ok("platform", told),
        "macos" => Finding::note(
            "platform",
            format!(
                "{told}: untested; kernels are ended by their process group, daemons may survive"
            ),
        ),
        _ => Finding::failed(
            "platform",
            format!("{told} is not supported"),
            "use WSL, or a backend on another machine",
        ),
    }
    .with(Vec::new(), data)
}

/// What keeps secrets in and leaves no process behind.
pub(super) fn protection() -> Finding {
    let checks = [
        (
            "memory hidden from other processes",
            dumpable_behavior().is_ok_and(|it| it == DumpableBehavior::NotDumpable),
        ),
        ("orphans adopted (subreaper)", adopt_orphans()),
        ("memfd", memory_file(b"").is_ok()),
        ("pidfd", Pidfd::open(std::process::id()).is_ok()),
        (
            "inotify",
            PathWatch::on(&env::temp_dir().join("warmcell")).is_ok(),
        ),
    ];
    let data = checks
        .iter()
        .map(|(name, is_there)| json!({ "name": name, "ok": is_there }));
    let data = data.collect::<Vec<_>>().into();
    let names = |wanted: bool| {
        let some = checks.iter().filter(|(_, is_there)| *is_there == wanted);
        some.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let root = if rustix::process::getuid().is_root() {
        vec![
            "cells run as root: they can read the memory of any process; what is stripped is not in ours"
                .to_owned(),
        ]
    } else {
        Vec::new()
    };
    let missing = names(false);
    if missing.is_empty() {
        Finding::ok("protection", names(true))
    } else {
        Finding::failed(
            "protection",
            format!("not to be had: {missing}"),
            "use Linux 5.4 or newer without a filter on these calls; for inotify raise \
             fs.inotify.max_user_instances (sysctl)",
        )
    }
    .with(root, data)
}

pub(super) fn descriptors() -> Finding {
    let (soft, hard) = nofile_limits();
    let shown =
        |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |it| it.to_string());
    let told = format!(
        "open files: {}, can be raised to {}",
        shown(soft),
        shown(hard)
    );
    let data = json!({ "soft": soft, "hard": hard });
    if hard.is_some_and(|hard| hard < FEW_DESCRIPTORS) {
        Finding::failed("files", told, format!("ulimit -Hn {FEW_DESCRIPTORS}"))
    } else {
        Finding::ok("files", told)
    }
    .with(Vec::new(), data)
}

pub(super) fn sandbox() -> Finding {
    let found = on_path("bwrap");
    let data =
        json!({ "bubblewrap": found.as_ref().map(|it| it.display().to_string()), "built": false });
    let there = found.map_or_else(
        || "bubblewrap is not installed".to_owned(),
        |path| format!("bubblewrap is there ({})", path.display()),
    );
    Finding::note(
        "sandbox",
        format!("{there}; this version has no --sandbox yet"),
    )
    .with(Vec::new(), data)
}

pub(super) fn backends() -> Finding {
    let programs = ["docker", "podman", "ssh", "kubectl"];
    let found: Vec<(&str, Option<PathBuf>)> = programs
        .into_iter()
        .map(|name| (name, on_path(name)))
        .collect();
    let data = found.iter().map(|(name, path)| {
        (
            (*name).to_owned(),
            json!(path.as_ref().map(|it| it.display().to_string())),
        )
    });
    let data = serde_json::Value::Object(data.collect());
    let there = found
        .iter()
        .filter(|(_, path)| path.is_some())
        .map(|(name, _)| *name);
    let there: Vec<&str> = there.collect();
    let there = if there.is_empty() {
        "none of docker, podman, ssh and kubectl is installed".to_owned()
    } else {
        format!("installed: {}", there.join(", "))
    };
    Finding::note(
        "backends",
        format!("local; {there}; this version has no --backend yet"),
    )
    .with(Vec::new(), data)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|it| it.is_absolute())
        .map(|folder| folder.join(program))
        .find(|path| {
            path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
        })
}
