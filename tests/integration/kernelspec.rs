//! `warmcell kernelspec`: what is listed, and what is installed.

use std::fs;

use serde_json::Value;
use warmcell::jupyter::Kernelspec;

use crate::support::{Place, finish, python, text};

#[test]
fn a_kernelspec_is_installed_where_it_says_and_listed() {
    let place = Place::new();
    let data = place.work().join(".local/share/jupyter/kernels");
    let output = finish(&mut place.warmcell(&["kernelspec", "install"]));
    let said = text(&output.stdout);
    let folder = data.join("warmcell");
    assert!(said.contains(folder.to_str().unwrap()), "{said}");
    let spec = Kernelspec::parse(&fs::read(folder.join("kernel.json")).unwrap()).unwrap();
    assert_eq!(
        spec.argv,
        [
            env!("CARGO_BIN_EXE_warmcell"),
            "kernel",
            "-f",
            "{connection_file}"
        ]
    );

    // Again, with other words, at another place, and never over what is not ours.
    let other = place.work().join("prefix");
    let named = [
        "kernelspec",
        "install",
        "--prefix",
        "prefix",
        "--name",
        "Mine",
        "--display-name",
        "My Python",
        "--python",
    ];
    let mut command = place.warmcell(&named);
    assert!(finish(command.arg(python())).status.success());
    let own = other.join("share/jupyter/kernels/Mine/kernel.json");
    let spec = Kernelspec::parse(&fs::read(&own).unwrap()).unwrap();
    assert_eq!(spec.display_name, "My Python");
    assert_eq!(spec.argv[5], python().to_str().unwrap());
    let foreign = r#"{"argv":["x"]}"#;
    fs::write(&own, foreign).unwrap();
    let output = finish(&mut place.warmcell(&named[..6]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not ours"), "{output:?}");
    assert_eq!(fs::read_to_string(&own).unwrap(), foreign);
    let output = finish(&mut place.warmcell(&["kernelspec", "install", "--name", "a/b"]));
    assert_eq!(output.status.code(), Some(2));

    fs::create_dir_all(data.join("broken")).unwrap();
    fs::write(data.join("broken/kernel.json"), "{").unwrap();
    let path = other.join("share/jupyter");
    let listed = |arguments: &[&str]| finish(place.warmcell(arguments).env("JUPYTER_PATH", &path));
    let output = listed(&["kernelspec", "list"]);
    assert!(output.status.success());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.starts_with("Available kernels:\n"), "{out}");
    assert!(
        out.contains("  mine        ") && out.contains("  warmcell    "),
        "{out}"
    );
    assert!(
        err.contains("broken/kernel.json: kernel.json is no JSON object"),
        "{err}"
    );
    let output = listed(&["kernelspec", "list", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["kernelspecs"]["warmcell"]["spec"]["language"], "python");
    assert_eq!(all["problems"].as_array().unwrap().len(), 1);
    assert!(output.stderr.is_empty());
}
