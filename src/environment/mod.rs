//! Interpreter and environment of a kernel, and which kernels there are.
//!
//! - `ladder`: the ladder of Pythons; - `interpreter`: what a Python is; - `unusable`: why one will not
//!   do; - `tried`: what became of each rung; - `identity`: whether one is still the same; - `front_end`:
//!   the one in which a front end runs;
//! - `visible`: which variables a kernel sees, by `scrub`; - `credentials`: which none ever sees;
//!   - `dropped`: which it does not see, and why;
//! - `kernelspecs`: the kernelspecs of Jupyter that are installed; - `kernelspec_paths`: where they
//!   are; - `kernelspec_programs`: whether their programs are there; - `kernelspec_start`: how their
//!   kernels are started; - `kernel_choice`: which kernel a name means; - `kernelspec_install`,
//!   `kernelspec_remove`: ours.

mod credentials;
mod dropped;
mod front_end;
mod identity;
mod interpreter;
mod kernel_choice;
mod kernelspec_install;
mod kernelspec_paths;
mod kernelspec_programs;
mod kernelspec_remove;
mod kernelspec_start;
mod kernelspecs;
mod ladder;
mod scrub;
mod tried;
mod unusable;
mod visible;

pub use credentials::{is_provider_credential, never_passes};
pub use dropped::{DroppedNames, Reason};
pub use front_end::front_end_python;
pub use identity::Identity;
pub use interpreter::{Interpreter, OLDEST, python_in};
pub use kernel_choice::{NamedKernel, named_kernel};
pub use kernelspec_install::{InstallError, OwnKernelspec, own_variables};
pub use kernelspec_paths::{ActiveEnvironment, active_environment, kernelspec_folders, user_data};
pub use kernelspec_remove::{RemoveError, kernelspecs_named, remove_kernelspec};
pub use kernelspecs::{
    InstalledKernelspec, Kernelspecs, UnknownKernel, UnusableKernelspec, foreign_kernel,
    installed_kernel, kernel_at, kernelspecs,
};
pub use ladder::{Candidate, Ladder, Rung, Source, candidates};
pub use scrub::{
    DROPPED, Dropped, HIDDEN, Scrubbed, harmless_programs, scrub, scrub_but, with_harmless_programs,
};
pub use tried::{TriedRung, Verdict, taken};
pub use unusable::Unusable;
pub use visible::{CredentialError, Visible, refuse_credentials, visible};
