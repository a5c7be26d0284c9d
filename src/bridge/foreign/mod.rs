//! In front of a kernel that is not ours: link on one side, ZeroMQ on the other.
//!
//! A process of its own (`warmcell bridge`) for each such kernel, so that whatever the kernel sends
//! can end nothing but this. To its manager it is a kernel like any other: link, stdout and stderr,
//! interrupt page, process.
//!
//! - `entry`: what the process is handed, and how it ends; - `launch`: the kernel's process;
//! - `reach`: where its sockets are to be; - `start`: its first answer; - `connection`: one of its
//!   sockets; - `serve`: the loop; - `hearing`: what the kernel says;
//! - `questions`: what it is asked between cells, and what cells ask;
//! - `cell`: a cell there and back; - `shown`: what a cell shows, on its way to the link;
//! - `told`: the reply to a cell; - `traceback`: where a cell has failed; - `python`: what Python
//!   kernels are given and asked; - `outlet`: what goes out, in order and within bounds.

mod cell;
mod connection;
mod entry;
mod hearing;
mod launch;
mod outlet;
mod payload;
mod python;
mod questions;
mod reach;
mod serve;
mod shown;
mod start;
mod told;
mod traceback;

pub(crate) use connection::{Connections, Event};
pub use entry::run;
pub(crate) use launch::launch;
pub(crate) use reach::{Places, reach};
pub(crate) use start::{parent_id, request};
