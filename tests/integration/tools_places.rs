//! Where the socket lies, whatever the surroundings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Manager, Place, finish, python, run, text};
use crate::tools_kit::json_of;

const CALL: &str =
    "import os; print(terminal('echo x')['output'].strip(), os.environ['HERMES_RPC_SOCKET'])";

/// Runs a cell by the command line with some variables; the folder of its tool socket.
async fn socket_with(place: &Place, variables: &[(&str, Option<&str>)]) -> PathBuf {
    let mut command = place.command(env!("CARGO_BIN_EXE_warmcell"));
    command.args(["exec", "--python"]).arg(python()).arg(CALL);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = finish(command.current_dir(place.work()));
    let stdout = text(&output.stdout);
    let socket = stdout.trim().strip_prefix("x ").unwrap_or_else(|| {
        panic!("{stdout}{}", text(&output.stderr));
    });
    let path = PathBuf::from(socket);
    assert!(path.as_os_str().len() <= 100, "{path:?}");
    assert!(!path.exists(), "it was left behind");
    place.assert_no_survivors().await;
    path
}

#[tokio::test]
async fn a_long_or_missing_place_is_passed_over() {
    let place = Place::new();
    let short = place.folder.path().join("run");
    let runtime = short.to_str().unwrap();
    assert!(
        socket_with(&place, &[])
            .await
            .starts_with(short.join("warmcell"))
    );
    // No runtime folder: the temporary one.
    let temp = place.folder.path().join("t");
    fs::create_dir(&temp).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let none = [("XDG_RUNTIME_DIR", None), ("TMPDIR", temp.to_str())];
    let own = format!("warmcell-{uid}");
    assert!(
        socket_with(&place, &none)
            .await
            .starts_with(temp.join(&own))
    );
    // Both too long.
    let long = place.folder.path().join("l".repeat(120));
    fs::create_dir(&long).unwrap();
    let both = [
        ("XDG_RUNTIME_DIR", long.to_str()),
        ("TMPDIR", long.to_str()),
    ];
    assert!(
        socket_with(&place, &both)
            .await
            .starts_with(format!("/tmp/{own}"))
    );
    // A place that cannot hold sockets, or that is none.
    for bad in ["/proc/self", "/sys", "relative", ""] {
        let both = [("XDG_RUNTIME_DIR", Some(bad)), ("TMPDIR", Some(bad))];
        let socket = socket_with(&place, &both).await;
        assert!(
            socket.starts_with(format!("/tmp/{own}")),
            "{bad:?}: {socket:?}"
        );
    }
    assert!(fs::read_dir(&long).unwrap().next().is_none());
    assert!(
        socket_with(&place, &[("TMPDIR", long.to_str())])
            .await
            .starts_with(runtime)
    );
}

#[tokio::test]
async fn the_socket_is_the_users_alone() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = "import json, os; print(json.dumps(os.environ['HERMES_RPC_SOCKET']))";
    let Value::String(path) = json_of(&session, code).await else {
        panic!("no path")
    };
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = PathBuf::from(path);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    run(&session, "pass").await;
    session.close().await;
    assert!(!path.exists());
    manager.end().await;
}
