//! How the kernels of a kernelspec are started.

use std::path::Path;

use super::credentials::is_provider_credential;
use super::kernelspecs::InstalledKernelspec;
use crate::config::{CONNECTION_FILE, Caller, ForeignKernel, KernelTransport};
use crate::jupyter::{InterruptMode, Kernelspec};

/// In the metadata of a kernelspec: by which sockets its kernels are reached.
const TRANSPORT: &str = "warmcell_transport";

/// A kernel of that kernelspec, for whoever asks; else what is wrong with its file.
///
/// Looks at the file system (a few blocking calls).
pub(super) fn started_as(
    name: String,
    found: InstalledKernelspec,
    caller: Option<&Caller>,
) -> Result<ForeignKernel, String> {
    let transport = transport(&found.spec)?;
    let InstalledKernelspec { folder, spec, .. } = found;
    let kernel = ForeignKernel {
        name,
        argv: with_program(spec.argv, &folder, caller),
        // What it sets is set on purpose, and passes; but never what is the agent's own.
        env: spec
            .env
            .into_iter()
            .filter(|(name, _)| !is_provider_credential(name))
            .collect(),
        language: spec.language,
        interrupted_by_message: spec.interrupt_mode == InterruptMode::Message,
        transport,
        folder,
    };
    if kernel.takes_connection_file() {
        Ok(kernel)
    } else {
        Err(format!("no word of its argv has {CONNECTION_FILE} in it"))
    }
}

/// What a kernelspec says of the sockets of its kernels.
fn transport(spec: &Kernelspec) -> Result<KernelTransport, String> {
    match spec.metadata.get(TRANSPORT) {
        None => Ok(KernelTransport::Any),
        Some(value) if value == "ipc" => Ok(KernelTransport::Ipc),
        Some(value) if value == "tcp" => Ok(KernelTransport::Tcp),
        Some(_) => Err(format!("metadata.{TRANSPORT} must be \"ipc\" or \"tcp\"")),
    }
}

/// The command, with the Python that is meant where that is named without a folder: Jupyter takes its
/// own there, that of the environment in which it and the kernelspec are installed. So here it is that
/// of the kernelspec's own environment, else that of the caller's; else the PATH says which.
fn with_program(mut argv: Vec<String>, folder: &Path, caller: Option<&Caller>) -> Vec<String> {
    let Some(program) = argv.first_mut() else {
        return argv;
    };
    let version = program.strip_prefix("python").unwrap_or("/");
    if !version
        .bytes()
        .all(|byte| byte == b'.' || byte.is_ascii_digit())
    {
        return argv;
    }
    // PREFIX/share/jupyter/kernels/NAME
    let own = folder
        .ancestors()
        .nth(4)
        .filter(|prefix| prefix.join("pyvenv.cfg").is_file() || prefix.join("conda-meta").is_dir());
    let chosen = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| caller?.variable(name).map(Path::new));
    let file = own
        .into_iter()
        .chain(chosen)
        .map(|prefix| prefix.join("bin").join(&*program))
        .find(|file| file.is_file());
    if let Some(file) = file.as_deref().and_then(Path::to_str) {
        file.clone_into(program);
    }
    argv
}
