//! `warmcell doctor`: what there is, what is in force, what is wrong, and what mends it.
//!
//! - `run`: all checks, and how they are printed; - `finding`: what a check has found;
//! - `python`: which Python, tried out with a kernel that ends at once; - `places`: home and sockets;
//! - `managers`: those that live; - `system`: what the system offers.
//!
//! It starts nothing that stays, and each part has a deadline.

mod finding;
mod managers;
mod places;
mod python;
mod run;
mod system;

pub(super) use run::{DoctorArguments, main};
