//! The lifecycle contract as a program, against any kernel of Jupyter's.
//!
//! [`check`] starts the kernel as a front end would, speaks ZeroMQ to it, and asks of it what the
//! contract promises: that state stays, that interrupts end what runs and nothing else, that its death is
//! seen, that a restart finds the same place, that nothing outlives it. Each check has a name that does
//! not change, a verdict, what was expected and what was observed, and figures.
//!
//! - `run`: the checks in their order; - `report`: what is told; - `figures`: numbers with units;
//! - `subject`: the kernel's process, and whoever it leaves; - `terms`: how it is checked; - `place`: its files; - `client`: what is asked of it and
//!   what it says; - `cells`: the code that it is given; - `files`: by which that code gives a sign;
//! - `starting`, `output`, `interrupts`, `timeout`, `restart`, `endings`, `balance`: the checks. Each looks,
//!   and hands what it has seen to a rule that judges (pure, and tested without a kernel).
//!
//! The kernel is not trusted: every wait has a deadline, what it says is bounded, and what it leaves is
//! ended.

mod balance;
mod cells;
mod client;
mod endings;
mod figures;
mod files;
mod interrupts;
mod output;
mod place;
mod report;
mod restart;
mod run;
mod starting;
mod subject;
mod terms;
mod timeout;

pub use figures::{Figure, Unit};
pub use report::{Finding, Report, Verdict};
pub use run::{check, names};
pub use terms::{CheckError, Terms};
