//! The other side of a manager's door: for the command line and other front ends.
//!
//! - `client`: what can be asked of a manager; - `managers`: all of a home's; - `cell`: a cell that
//!   runs there; - `spool`: its output, until somebody takes it; - `results`: what is told as it comes; - `sight`: what is known
//!   of a kernel when no result tells it; - `start`: the background server, started
//!   where there is none; - `connection`: one request.

mod cell;
#[expect(
    clippy::module_inception,
    reason = "the handle is what the room is named after"
)]
mod client;
mod connection;
mod error;
mod handing;
mod living;
mod managers;
mod results;
mod sight;
mod spool;
mod start;

pub use cell::RemoteCell;
pub use client::{Client, Home, Stopped, Taken};
pub use error::ClientError;
pub use handing::Handing;
pub use managers::Found;
pub use results::Results;
pub use spool::Missed;
pub use start::READY;
