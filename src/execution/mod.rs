//! One cell, from its source to its result.
//!
//! - `cell`: runs it on a kernel under its limits; - `stopping`: ends it before its time;
//! - `interrupt`: how it is interrupted from elsewhere; - `output`: collects what it prints;
//! - `transcript`: stdout with what was shown in between; - `wishes`: what a front end wants of it;
//! - `live`: hands that on to somebody who reads along; - `progress`: what it has done so far;
//! - `turn`: when it begins; - `cut_off`: what was seen of one whose end was not; - `outcome`: the result object; - `ended`: what its end means;
//! - `kept`: what of it becomes files;
//! - `text` and `losses`: what a reader of the result sees; - `hints`: what to do about a known mistake.
//!
//! Tools are known only as an authority that a cell has and loses.

mod authority;
mod cell;
mod cut_off;
mod ended;
mod hints;
mod interrupt;
mod kept;
mod live;
mod losses;
mod outcome;
mod output;
mod progress;
mod stopping;
mod text;
mod transcript;
mod turn;
mod wishes;

pub use authority::CellAuthority;
pub use cell::{CellRun, CellTask, Cost, How, Stop, run};
pub use cut_off::Seen;
pub(crate) use ended::INTERRUPTED_KEPT;
pub use hints::{Gone, Repeats, Setting};
pub use interrupt::Interrupt;
pub use kept::{Artifact, Files, Kept, Store};
pub use live::{LiveEvent, LiveOutput, LiveSender, live_output};
pub use losses::{Loss, Successor, results_in_words};
pub use outcome::{
    BackgroundOutput, BesideStreams, ErrorClass, KernelReport, LossReason, Lost, LostName, Outcome,
    Raised, ReportedState, Status, Unreceived,
};
pub use output::{Caps, Watcher, shutdown_sink};
pub use progress::Progress;
pub use text::{Story, outcome_of};
pub use turn::{Turn, TurnWatch};
pub use wishes::Wishes;
