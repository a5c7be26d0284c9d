//! One cell, from its source to its result.
//!
//! - `cell`: runs it on a kernel under its limits; - `output`: collects what it prints;
//! - `live`: hands that on to somebody who reads along; - `progress`: what it has done so far;
//! - `turn`: when it begins;
//! - `outcome`: the result object;
//! - `text`: what a reader of the result sees.
//!
//! Tools are known only as an authority that a cell has and loses.

mod authority;
mod cell;
mod live;
mod losses;
mod outcome;
mod output;
mod progress;
mod text;
mod turn;

pub use authority::CellAuthority;
pub use cell::{CellRun, CellTask, How, run};
pub use live::{LiveEvent, LiveOutput, LiveSender, live_output};
pub use losses::Loss;
pub use outcome::{
    BackgroundOutput, BesideStreams, ErrorClass, KernelReport, LossReason, Lost, LostName, Outcome,
    Raised, ReportedState, Status,
};
pub use output::{Caps, shutdown_sink};
pub use progress::Progress;
pub use text::{Story, outcome_of};
pub use turn::{Turn, TurnWatch};
