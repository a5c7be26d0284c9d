//! Where files and sockets are.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::json;

use super::finding::Finding;
use crate::config::Settings;
use crate::folders::{is_private, private_bases, socket_folder};

/// Free space below which a disk is told of, in bytes.
const SCARCE: u64 = 256 << 20;

/// The home: what cannot be kept there is lost, and cells run.
pub(super) fn home(home: &Path) -> Finding {
    let shown = home.display();
    let found = match fs::metadata(home) {
        Ok(found) if !found.is_dir() => {
            return Finding::failed(
                "home",
                format!("{shown} is no folder"),
                "set HERMES_HOME to another one",
            );
        }
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return to_be_made(home),
        Err(error) => {
            return Finding::failed(
                "home",
                format!("{shown} cannot be looked at: {error}"),
                "set HERMES_HOME to a folder of your own",
            );
        }
    };
    if let Err(error) = tempfile::Builder::new()
        .prefix(".doctor-")
        .tempfile_in(home)
    {
        return Finding::failed(
            "home",
            format!("{shown} cannot be written to ({error}): no cache, log or record is kept"),
            format!("chmod u+rwx {shown}, free some space, or set HERMES_HOME"),
        );
    }
    for name in ["logs", "warmcell"] {
        let folder = home.join(name);
        if folder.exists()
            && let Err(error) = is_private(&folder)
        {
            let folder = folder.display();
            return Finding::failed(
                "home",
                format!("{folder} is not used: {error}"),
                format!("chmod 700 {folder}"),
            );
        }
    }
    let free = free_bytes(home);
    let mode = found.permissions().mode() & 0o777;
    let is_ours = found.uid() == rustix::process::getuid().as_raw();
    let data = json!({
        "path": shown.to_string(), "exists": true, "writable": true, "mode": format!("{mode:04o}"),
        "free_bytes": free,
    });
    let told = format!("{shown}, mode {mode:04o}, {}", in_words(free));
    let finding = match free {
        Some(free) if free < SCARCE => Finding::note("home", format!("{told}: that is little"))
            .mended_by("free some space there"),
        _ if mode & 0o022 != 0 || !is_ours => {
            Finding::note("home", format!("{told}: others may change what is in it"))
                .mended_by(format!("chmod go-w {shown}"))
        }
        _ => Finding::ok("home", told),
    };
    finding.with(Vec::new(), data)
}

fn to_be_made(home: &Path) -> Finding {
    let shown = home.display();
    let above = home.ancestors().skip(1).find(|it| it.exists());
    let above = above.unwrap_or(Path::new("/"));
    let data = json!({ "path": shown.to_string(), "exists": false });
    let writable = rustix::fs::access(above, rustix::fs::Access::WRITE_OK).is_ok();
    let finding = if writable {
        Finding::ok(
            "home",
            format!("{shown} is not there yet and is made when it is needed"),
        )
    } else {
        Finding::failed(
            "home",
            format!(
                "{shown} is not there and cannot be made in {}",
                above.display()
            ),
            "set HERMES_HOME to a folder that can be written to",
        )
    };
    finding.with(Vec::new(), data)
}

fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn in_words(free: Option<u64>) -> String {
    match free {
        Some(bytes) => format!("{} MiB free", bytes >> 20),
        None => "free space not known".to_owned(),
    }
}

/// The folder for sockets; the one that is tried goes again.
pub(super) fn runtime(settings: &Settings) -> Finding {
    let bases = private_bases(
        settings.runtime_dir.as_deref(),
        settings.temp_dir.as_deref(),
    );
    let shown: Vec<String> = bases.iter().map(|it| it.display().to_string()).collect();
    match socket_folder(&bases) {
        Ok(folder) => {
            let path = folder.path().to_owned();
            let base = path.parent().unwrap_or(&path).display().to_string();
            let bytes = path.as_os_str().len();
            let data = json!({ "path": base, "socket_path_bytes": bytes, "tried": shown });
            let first = shown.first().is_some_and(|it| *it == base);
            let told = format!("sockets are made in {base} (a path of {bytes} bytes)");
            let finding = if first {
                Finding::ok("runtime", told)
            } else {
                Finding::note(
                    "runtime",
                    format!(
                        "{told}, since {} will not do",
                        shown.first().map_or("", String::as_str)
                    ),
                )
            };
            finding.with(Vec::new(), data)
        }
        Err(error) => Finding::failed(
            "runtime",
            error.to_string(),
            "set TMPDIR to a short path of a folder that can hold sockets",
        ),
    }
}
