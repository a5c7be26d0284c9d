//! Interpreter and environment of a kernel, and which kernels there are.
//!
//! - `interpreter`: the ladder of Pythons; - `front_end`: the one in which a front end runs;
//! - `scrub`: which variables a kernel sees; - `credentials`: which none ever sees;
//! - `kernelspecs`: the kernelspecs of Jupyter that are installed; - `kernelspec_paths`: where they
//!   are; - `kernelspec_programs`: whether their programs are there; - `kernelspec_start`: how their
//!   kernels are started; - `kernel_choice`: which kernel a name means; - `kernelspec_install`,
//!   `kernelspec_remove`: ours.

mod credentials;
mod front_end;
mod interpreter;
mod kernel_choice;
mod kernelspec_install;
mod kernelspec_paths;
mod kernelspec_programs;
mod kernelspec_remove;
mod kernelspec_start;
mod kernelspecs;
mod scrub;

pub use credentials::is_provider_credential;
pub use front_end::front_end_python;
pub use interpreter::{Candidate, Interpreter, OLDEST, candidates, python_in};
pub use kernel_choice::{NamedKernel, named_kernel};
pub use kernelspec_install::{InstallError, OwnKernelspec, own_variables};
pub use kernelspec_paths::{ActiveEnvironment, active_environment, kernelspec_folders, user_data};
pub use kernelspec_remove::{RemoveError, kernelspecs_named, remove_kernelspec};
pub use kernelspecs::{
    InstalledKernelspec, Kernelspecs, UnknownKernel, UnusableKernelspec, foreign_kernel,
    installed_kernel, kernel_at, kernelspecs,
};
pub use scrub::{HIDDEN, Scrubbed, harmless_programs, scrub, scrub_but, with_harmless_programs};
