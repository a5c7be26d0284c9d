//! Interpreter and environment of a kernel, and which kernels there are.
//!
//! - `interpreter`: the ladder of Pythons; - `scrub`: which variables a kernel sees;
//! - `kernelspecs`: the kernelspecs of Jupyter that are installed; - `kernelspec_paths`: where they
//!   are; - `kernelspec_start`: how their kernels are started; - `kernelspec_install`: ours.

mod interpreter;
mod kernelspec_install;
mod kernelspec_paths;
mod kernelspec_start;
mod kernelspecs;
mod scrub;

pub use interpreter::{Candidate, Interpreter, OLDEST, candidates};
pub use kernelspec_install::{InstallError, OwnKernelspec};
pub use kernelspec_paths::{environment_prefix, kernelspec_folders, user_data};
pub use kernelspecs::{
    InstalledKernelspec, Kernelspecs, UnknownKernel, UnusableKernelspec, foreign_kernel,
    installed_kernel, kernel_at, kernelspecs,
};
pub use scrub::{HIDDEN, Scrubbed, harmless_programs, scrub, with_harmless_programs};
