//! Jupyter Server's paths for kernels at a manager's door: a kernel is a session.
//!
//! `rest` answers `/api/kernels` and its like; `socket` is a WebSocket that carries messages, whose
//! two forms are read and written by `wire`. What the messages say is a matter of the room
//! [`frontends`](crate::frontends). `kernels` describes sessions as kernels, `create` makes them,
//! `meter` keeps what all clients send together within bounds.

mod create;
mod kernels;
mod meter;
mod rest;
mod socket;
mod wire;

pub(super) use kernels::Kernels;
pub(super) use meter::Peer;
pub(super) use rest::api;
