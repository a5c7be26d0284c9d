//! What `/proc/PID/environ` shows of the processes that stand around a cell: nothing that was stripped.

use std::fs;

use crate::foreign_kit::{hostile, install, spec};
use crate::lifecycle_support::until;
use crate::server_kit::{Home, ended};

/// The names of the processes of this place, and their environments.
fn processes(home: &Home) -> Vec<(String, String)> {
    let found = home.place.survivors().into_iter();
    let named = found.filter_map(|(pid, command)| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let environment = String::from_utf8_lossy(&environment).into_owned();
        Some((format!("{} {command}", name.trim()), environment))
    });
    named.collect()
}

#[tokio::test]
async fn no_process_around_a_cell_shows_what_was_stripped() {
    let home = Home::new();
    let base = install(&home.place, "echo", &spec(&hostile("honest")));
    let secret = "hush-8d1f0c77a2";
    let start = |words: &[&str]| {
        let mut command = home.command(words);
        command
            .env("JUPYTER_PATH", &base)
            .env("MY_API_KEY", secret)
            .env("SOMETHING", format!("else-{secret}"))
            .env("https_proxy", format!("http://user:{secret}@proxy.example"));
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let (code, _, err) = ended(start(&["exec", "-s", "echo", "--kernel", "echo", "hello"]));
    assert_eq!(code, 0, "{err}");
    // A job of the server's, and one of a command that holds its session itself.
    let sleeps = "terminal('exec -a a-job sleep 300')";
    let mut waiting = [
        start(&["exec", "-s", "s", sleeps]),
        start(&["exec", sleeps]),
    ];
    let kinds = [
        ("server", "serve"),
        ("forkserver", "warmcell-forks"),
        ("kernel", "warmcell-kernel"),
        ("bridge", "warmcell bridge"),
        ("foreign kernel", "hostile_kernel.py"),
    ];
    until("two jobs", || {
        let jobs = processes(&home);
        jobs.iter()
            .filter(|(name, _)| name.contains("a-job 300"))
            .count()
            == 2
    })
    .await;
    let found = processes(&home);
    for (kind, words) in kinds {
        let is_there = found.iter().any(|(name, _)| name.contains(words));
        assert!(is_there, "no {kind} in {found:?}");
    }
    let clients = ["exec -s s", "exec -s echo"];
    for (name, environment) in &found {
        // Who holds no kernel has what its starter has, and that holds it anyway.
        if clients.iter().any(|client| name.contains(client)) {
            continue;
        }
        assert!(!environment.contains(secret), "{name}: {environment}");
        assert!(!environment.contains("SOMETHING="), "{name}");
        // Names of secrets are not there either.
        let says = environment.contains("MY_API_KEY");
        assert!(!says, "{name}: {environment}");
    }
    for child in &mut waiting {
        crate::lifecycle_support::signal(child.id(), rustix::process::Signal::INT);
    }
    for child in waiting {
        drop(child.wait_with_output());
    }
    home.end().await;
}
