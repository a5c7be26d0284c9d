//! What the tests of kernels that are not ours share: managers that have a bridge, and such kernels.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use warmcell::config::{Caller, ForeignKernel, Settings};
use warmcell::session::{Registry, Session};

use crate::conformance::suites;
use crate::jupyter_kit::House;
use crate::support::{Manager, Place, SAFETY, python};

/// A manager with a bridge; how long its foreign kernels may take to answer.
pub async fn manager(foreign_start: Duration) -> Manager {
    let place = Place::new();
    let settings = Settings {
        bridge: Some(PathBuf::from(env!("CARGO_BIN_EXE_warmcell"))),
        foreign_start,
        ..place.settings()
    };
    let registry = Registry::start(settings).await.unwrap();
    Manager { place, registry }
}

/// ipykernel, if it is there.
pub fn ipykernel() -> Option<ForeignKernel> {
    let python = suites()?;
    Some(ForeignKernel {
        name: "ipy".to_owned(),
        argv: ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
            .into_iter()
            .fold(vec![python.display().to_string()], |mut argv, word| {
                argv.push(word.to_owned());
                argv
            }),
        language: "python".to_owned(),
        ..ForeignKernel::default()
    })
}

/// The kernel of raw sockets that misbehaves in this way.
pub fn hostile(mode: &str) -> ForeignKernel {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/hostile_kernel.py");
    let words = [
        python().display().to_string(),
        program.display().to_string(),
        mode.to_owned(),
        "{connection_file}".to_owned(),
    ];
    ForeignKernel {
        name: "hostile".to_owned(),
        argv: words.into(),
        language: "echo".to_owned(),
        ..ForeignKernel::default()
    }
}

/// Who asks for that kernel.
pub fn caller(manager: &Manager, kernel: ForeignKernel) -> Arc<Caller> {
    Arc::new(Caller {
        python: None,
        kernel: Some(kernel),
        ..manager.place.caller(python())
    })
}

/// A session with that kernel.
pub fn session(manager: &Manager, name: &str, kernel: ForeignKernel) -> Session {
    let caller = caller(manager, kernel);
    manager.registry.session(name, &caller).unwrap()
}

/// With ipykernel, if it is there.
pub async fn with_ipykernel(test: impl AsyncFn(&Manager, &Session, ForeignKernel)) {
    let Some(kernel) = ipykernel() else { return };
    let manager = manager(SAFETY).await;
    let session = session(&manager, "foreign", kernel.clone());
    test(&manager, &session, kernel).await;
    manager.end().await;
}

/// With a session whose kernel misbehaves in each of these ways.
pub async fn with_hostile(modes: &[&str], test: impl AsyncFn(&Manager, &Session, &str)) {
    let manager = manager(SAFETY).await;
    for mode in modes {
        let session = session(&manager, mode, hostile(mode));
        test(&manager, &session, mode).await;
    }
    manager.end().await;
}

/// A manager with a bridge and a door, and where its front ends find kernelspecs.
pub async fn house() -> House {
    House::open_with(|settings| {
        settings.bridge = Some(PathBuf::from(env!("CARGO_BIN_EXE_warmcell")));
        let work = settings.home.parent().unwrap().join("work/jupyter");
        let path = work.display().to_string();
        settings
            .kernel_environment
            .push(("JUPYTER_PATH".to_owned(), path));
    })
    .await
}

/// A session of a house, with that kernel.
pub fn session_in(house: &House, name: &str, kernel: ForeignKernel) -> Session {
    let caller = Caller {
        python: None,
        kernel: Some(kernel),
        ..house.place.caller(python())
    };
    house.manager.registry().session(name, &caller).unwrap()
}

/// Writes a kernelspec; the folder for `JUPYTER_PATH`.
pub fn install(place: &Place, name: &str, spec: &serde_json::Value) -> PathBuf {
    let base = place.work().join("jupyter");
    install_in(&base, name, spec);
    base
}

/// Writes a kernelspec below a folder of Jupyter's; its own folder.
pub fn install_in(base: &Path, name: &str, spec: &serde_json::Value) -> PathBuf {
    let folder = base.join("kernels").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kernel.json"), spec.to_string()).unwrap();
    folder
}

/// `kernel.json` of a kernel.
pub fn spec(kernel: &ForeignKernel) -> serde_json::Value {
    serde_json::json!({
        "argv": kernel.argv, "language": kernel.language, "display_name": kernel.name,
        "env": { "FOREIGN": "${HOME}/x" },
    })
}

/// `warmcell exec ARGUMENTS`, where those kernelspecs are found.
pub fn exec(place: &Place, arguments: &[&str]) -> std::process::Command {
    let mut command = place.warmcell(&["exec"]);
    command
        .args(arguments)
        .env("JUPYTER_PATH", place.work().join("jupyter"));
    command
}
