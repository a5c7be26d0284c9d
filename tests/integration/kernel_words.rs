//! What `warmcell kernel` and kernelspecs say of what is wrong, and where kernelspecs are looked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::support::{Place, finish, python, text};

#[test]
fn what_is_wrong_with_a_command_line_is_told_in_its_own_words() {
    let place = Place::new();
    let kernelspec = place.work().join("nothing");
    let kernelspec = kernelspec.to_str().unwrap();
    for (words, code, sentence) in [
        (
            &["kernel", "--no-such-option", "-f", "k.json"][..],
            2,
            "--no-such-option",
        ),
        (
            &["kernel", "--python", "/nope", "-f", "k.json"],
            125,
            "(from --python)",
        ),
        (
            &["kernelspec", "install", "--python", "/nope"],
            125,
            "(from --python)",
        ),
        (
            &[
                "kernel",
                "--kernelspec",
                kernelspec,
                "--python",
                "/nope",
                "-f",
                "k.json",
            ],
            125,
            "no kernel.json in",
        ),
    ] {
        let output = finish(&mut place.warmcell(words));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
        assert!(!said.contains("caller."), "{words:?}: {said}");
    }
}

#[test]
fn a_kernelspec_without_a_connection_file_is_told_and_not_offered() {
    let place = Place::new();
    let kernels = place.work().join(".local/share/jupyter/kernels");
    for (name, argv) in [
        ("none", json!(["/bin/sh"])),
        ("good", json!(["/bin/sh", "{connection_file}"])),
    ] {
        fs::create_dir_all(kernels.join(name)).unwrap();
        let text = json!({ "argv": argv }).to_string();
        fs::write(kernels.join(name).join("kernel.json"), text).unwrap();
    }
    let listed = finish(&mut place.warmcell(&["kernelspec", "list"]));
    let said = text(&listed.stderr);
    assert!(
        said.contains("none/kernel.json: no word of its argv has {connection_file}"),
        "{said}"
    );
    let refused = finish(&mut place.warmcell(&["exec", "--kernel", "none", "1"]));
    let said = text(&refused.stderr);
    assert!(
        said.contains("there are good") || said.contains(", good"),
        "{said}"
    );
    assert!(
        !said.contains("there are none") && !said.contains(", none"),
        "{said}"
    );
}

#[test]
fn the_environment_of_the_jupyter_on_path_is_looked_into() {
    let place = Place::new();
    let venv = place.work().join("venv");
    let folder = venv.join("share/jupyter/kernels/mine");
    for path in [&venv.join("bin"), &folder] {
        fs::create_dir_all(path).unwrap();
    }
    fs::write(
        folder.join("kernel.json"),
        r#"{"argv":["/bin/sh","{connection_file}"]}"#,
    )
    .unwrap();
    fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    let jupyter = venv.join("bin/jupyter");
    fs::write(&jupyter, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&jupyter, fs::Permissions::from_mode(0o755)).unwrap();
    // One of the user's, of the same name, comes after it, as with Jupyter.
    let users = place.work().join(".local/share/jupyter/kernels/mine");
    fs::create_dir_all(&users).unwrap();
    fs::write(
        users.join("kernel.json"),
        r#"{"argv":["/bin/sh","{connection_file}"]}"#,
    )
    .unwrap();
    let bin = place.work().join("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(&jupyter, bin.join("jupyter")).unwrap();
    for first in [venv.join("bin"), bin] {
        let mut list = place.warmcell(&["kernelspec", "list"]);
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            first.display(),
            python().parent().unwrap().display()
        );
        let output = finish(list.env("PATH", path));
        let listed = text(&output.stdout);
        assert!(listed.contains(folder.to_str().unwrap()), "{listed}");
        assert!(!listed.contains(users.to_str().unwrap()), "{listed}");
    }
}
