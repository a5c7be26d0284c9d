//! ZeroMQ in front of a session: a kernel that any front end of Jupyter can talk to.
//!
//! - [`foreign`]: the other way round, a kernel that is not ours behind a link;
//! - `kernel`: a session as a kernel; - `routes`: the way back of a reply;
//! - `file`: the connection file; - `listen`: sockets that listen; - `sockets`: the five sockets of a
//!   kernel, who is connected to them, and what is published; - `connected`: one connection;
//! - `queue`: what waits for one peer; - `error`: what can go wrong before.
//!
//! The other side of a connection is anybody until its messages are found to be signed, so nothing
//! here panics, allocates by an announced length, or waits for one peer at the cost of another.

mod coming;
mod connected;
mod error;
mod file;
pub mod foreign;
mod kernel;
mod listen;
mod queue;
mod routes;
mod sockets;

pub use error::BridgeError;
pub use file::{OwnFile, make_connection, read_connection};
pub use kernel::{JupyterKernel, KernelEnd};
pub use listen::Listeners;
