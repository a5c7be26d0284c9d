//! The command line: arguments in, text or JSON out.
//!
//! - `args`, `args_sessions`: what can be said; - `surroundings`: what this process was started with;
//! - `source`: where the code comes from; - `variables`: what is let through for it; - `exec`: what is needed before the first cell; - `row`:
//!   runs cells; - `kernels`: where they run; - `signals`: what interrupts them;
//! - `show`: prints them; - `writer`: a stream that may block; - `streams`: those that this process
//!   was given; - `exit`: exit codes, an interface; - `terms`: what flags and configuration say of a cell;
//! - `args_kernel`, `kernel`, `kernelspec`: what front ends of Jupyter find; - `check`: kernels of any
//!   kind against the contract;
//! - `sessions`: sessions that live on (`list`, `events`: as people read them); - `serve`: the background
//!   server; - `logs`: what managers have logged;
//! - `doctor`: what there is and what is wrong.

mod args;
mod args_kernel;
mod args_sessions;
mod bridge;
mod check;
mod doctor;
mod events;
mod exec;
mod exit;
mod flags;
mod kernel;
mod kernels;
mod kernelspec;
mod kernelspec_place;
mod list;
mod logs;
mod row;
mod serve;
mod sessions;
mod show;
mod signals;
mod source;
mod streams;
mod surroundings;
mod terms;
mod variables;
mod writer;

pub use args::main;
pub use streams::note_closed_streams;
