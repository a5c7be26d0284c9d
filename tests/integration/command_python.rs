//! Which Python `warmcell exec` takes, and what it says of one that will not do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Place, finish, python, text};

/// `warmcell exec` with the default Python on PATH, as `python3`.
fn on_path(place: &Place, arguments: &[&str]) -> Command {
    let bin = place.folder.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let link = bin.join("python3");
    if !link.exists() {
        // Not a link: what an interpreter is found by is its own folder.
        fs::write(
            &link,
            format!("#!/bin/sh\nexec {} \"$@\"\n", python().display()),
        )
        .unwrap();
        fs::set_permissions(&link, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = place.warmcell(&["exec"]);
    let path = format!("{}:/usr/bin:/bin:{}", bin.display(), place.mark);
    command.args(arguments).env("PATH", path);
    command
}

#[tokio::test]
async fn a_virtual_env_that_will_not_do_is_told_once() {
    let place = Place::new();
    let broken = place.work().join("broken");
    fs::create_dir_all(broken.join("bin")).unwrap();
    fs::write(
        broken.join("bin/python"),
        "#!/bin/sh\necho no good >&2; exit 3\n",
    )
    .unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(broken.join("bin/python"), mode).unwrap();
    fs::write(place.work().join("a.py"), "print(6*7)").unwrap();
    for (environment, reason) in [
        (place.work().join("gone"), "No such file"),
        (broken, "it said: no good"),
    ] {
        let environment = environment.display().to_string();
        // Two cells, and a kernel that is started anew.
        let cells = ["-f", "a.py", "-f", "a.py"];
        let output = finish(on_path(&place, &cells).env("VIRTUAL_ENV", &environment));
        assert_eq!(text(&output.stdout), "42\n42\n");
        let stderr = text(&output.stderr);
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("warmcell: "), "{stderr}");
        for words in [
            environment.as_str(),
            "VIRTUAL_ENV",
            reason,
            "was taken instead",
        ] {
            assert!(stderr.contains(words), "{words:?} is not in {stderr}");
        }
        let taken = format!(
            "{} (from PATH)",
            place.folder.path().join("bin/python3").display()
        );
        assert!(stderr.contains(&taken), "{stderr}");
        // For a program it stands in the result.
        let mut command = on_path(&place, &["--json", "6*7"]);
        let output = finish(command.env("VIRTUAL_ENV", &environment));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(told["warning"].as_str().unwrap().contains("VIRTUAL_ENV"));
        assert_eq!(text(&output.stderr), "");
    }
    // Nothing is said of one that is not set, or empty.
    for value in [None, Some("")] {
        let mut command = on_path(&place, &["6*7"]);
        if let Some(value) = value {
            command.env("VIRTUAL_ENV", value);
        }
        let output = finish(&mut command);
        assert_eq!(text(&output.stdout), "42\n");
        assert_eq!(text(&output.stderr), "");
    }
    place.assert_no_survivors().await;
}
