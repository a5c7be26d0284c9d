//! Where a kernelspec of ours is, and which Python its kernels have there.

use std::path::{Path, PathBuf};

use tokio::runtime;

use super::args_kernel::KernelspecPlace;
use super::flags::in_flags;
use super::{exit, surroundings};
use crate::config::{Caller, Settings};
use crate::environment::{active_environment, python_in, user_data};
use crate::session::Registry;

/// A refusal: exit code and sentence.
pub(super) type Refused = (u8, String);

/// A Python that has run a kernel.
#[derive(Debug)]
pub(super) struct Tried {
    /// `sys.executable`.
    pub(super) executable: PathBuf,
    pub(super) version: String,
}

/// A folder of Jupyter's (`.../share/jupyter`).
#[derive(Debug)]
pub(super) struct Place {
    pub(super) data: PathBuf,
    /// The Python of the environment that it belongs to.
    pub(super) python: Option<PathBuf>,
}

impl Place {
    /// The one that is meant; that of the user, if none is named.
    pub(super) fn of(place: &KernelspecPlace, caller: &Caller) -> Result<Self, Refused> {
        let usage = |sentence: String| (exit::USAGE, sentence);
        if let Some(prefix) = &place.prefix {
            return Ok(Self::in_environment(&caller.cwd.join(prefix)));
        }
        if place.sys_prefix {
            return Self::active(caller);
        }
        let data = user_data(caller);
        let data = data.ok_or_else(|| usage("HOME is not set; give --prefix DIR".to_owned()))?;
        Ok(Self { data, python: None })
    }

    fn in_environment(prefix: &Path) -> Self {
        Self {
            data: prefix.join("share/jupyter"),
            python: python_in(prefix),
        }
    }

    fn active(caller: &Caller) -> Result<Self, Refused> {
        if let Some(active) = active_environment(caller) {
            let place = Self::in_environment(&active.prefix);
            if place.python.is_some() {
                return Ok(place);
            }
            let (variable, prefix) = (active.variable, active.prefix.display());
            let sentence = format!(
                "{variable} is {prefix}, and there is no Python (bin/python); activate an environment that \
                 is there, or give --user or --prefix DIR"
            );
            return Err((exit::USAGE, sentence));
        }
        // Only it knows: what stands on PATH may be a shim.
        let tried = try_out(caller, None)?;
        let bin = tried.executable.parent();
        let prefix = bin
            .filter(|bin| bin.ends_with("bin"))
            .and_then(Path::parent);
        let prefix = prefix.ok_or_else(|| {
            let executable = tried.executable.display();
            let sentence = format!(
                "no Python environment is active, and {executable} stands in none; give --user or --prefix \
                 DIR"
            );
            (exit::USAGE, sentence)
        })?;
        Ok(Self {
            data: prefix.join("share/jupyter"),
            python: Some(tried.executable),
        })
    }
}

/// Starts a kernel with this Python, or with the one that the caller's environment says, and ends it:
/// what Warmcell can do with it only that shows.
pub(super) fn try_out(caller: &Caller, python: Option<&Path>) -> Result<Tried, Refused> {
    let caller = Caller {
        python: python.map(Path::to_owned),
        ..caller.clone()
    };
    let unavailable = |error: String| (exit::UNAVAILABLE, in_flags(&error));
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| unavailable(format!("cannot start: {error}")))?;
    let trying = async {
        let settings = Settings {
            kernel_idle_timeout: None,
            ..surroundings::settings()
        };
        let registry = Registry::start(settings).await;
        let registry = registry.map_err(|error| unavailable(error.to_string()))?;
        let found = match registry.session("kernelspec", &caller) {
            Ok(session) => match session.start().await {
                Ok(()) => Ok(session.status().python),
                Err(outcome) => Err(outcome.error.unwrap_or_default()),
            },
            Err(error) => Err(error.to_string()),
        };
        registry.shut_down().await;
        let python = found.map_err(unavailable)?;
        python
            .ok_or_else(|| unavailable("the kernel was lost as soon as it had started".to_owned()))
    };
    let python = runtime.block_on(trying)?;
    Ok(Tried {
        executable: python.executable,
        version: python.version,
    })
}
