//! `warmcell exec`: streams, exit codes, JSON.

use crate::support::{Place, finish, text};

#[tokio::test]
async fn exec_prints_and_exits_with_0() {
    let place = Place::new();
    let output = finish(&mut place.exec(&["print(6*7)"]));
    assert_eq!(text(&output.stdout), "42\n");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    place.assert_no_survivors().await;
}

#[tokio::test]
async fn help_and_usage() {
    let place = Place::new();
    let output = finish(&mut place.warmcell(&["--version"]));
    assert!(text(&output.stdout).starts_with("warmcell 0.1.0"));
    let output = finish(&mut place.warmcell(&["exec", "-t", "abc", "1"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("0.001 to 86400 seconds, got abc"));
}
