//! What the tests of kernels that are not ours share: managers that have a bridge, and such kernels.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use warmcell::config::{Caller, ForeignKernel, Settings};
use warmcell::session::{Registry, Session};

use crate::conformance::suites;
use crate::support::{Manager, Place, python};

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
