//! Jupyter Server's paths for kernels at a manager's door: a kernel is a session.
//!
//! `rest` answers `/api/kernels` and its like; `socket` is a WebSocket that carries messages, whose
//! two forms are read and written by `wire`. For each session that is watched there is one `hub`: it
//! hands what is published to the `outbox` of every client, and knows from `others` what cells do
//! that came another way. `requests` answers one client, one request after the other; `cell` runs a
//! cell for it, and `content` holds the words of all answers. `meter` keeps what all clients send
//! together within bounds.

mod cell;
mod content;
mod create;
mod hub;
mod kernels;
mod meter;
mod others;
mod outbox;
mod requests;
mod rest;
mod socket;
mod wire;

pub(super) use kernels::Kernels;
pub(super) use meter::Peer;
pub(super) use rest::api;
