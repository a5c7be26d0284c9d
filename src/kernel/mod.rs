//! One kernel: one process, one actor task, one handle.
//!
//! The actor owns link, pipes and process. It knows when a cell has ended: its reply has arrived
//! and the pipes are drained, or the process is gone; never silence. It knows no session, no name,
//! no limit of output and no secret; what a cell prints goes to the sink that came with it.
//!
//! - `handle`: how the others talk to it; - `actor`: the loop; - `reading`: what it reads, and when
//!   that ends a cell; - `link`: frames in and out;
//! - `running`: the cell, or the question of a front end, that it works on; - `input`: what a cell asks
//!   whoever is at its keyboard; - `question`: what it is asked between cells; - `sink`: where output goes, and back-pressure; - `state` and `escalation`: pure rules.

mod actor;
mod ending;
mod escalation;
mod handle;
mod input;
mod link;
mod question;
mod reading;
mod running;
mod sink;
mod state;

pub use ending::{CellEnd, Death, Ending};
pub use escalation::{Escalation, Step};
pub use handle::{AskRequest, CellRequest, Kernel};
pub use input::{InputQuestion, InputQuestions, InputSource, input_source};
pub use link::FrameBudget;
pub use question::WeakKernel;
pub use sink::{CellSink, LateSink, Pressure, SharedSink};
pub use state::{KernelState, Transition, Trigger};
