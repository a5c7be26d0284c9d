//! Sessions as Jupyter's front ends see them: requests in, messages out.
//!
//! This is the translation alone, whatever carries the messages: it knows no socket, no HTTP and no
//! `ZeroMQ`. Who carries them makes an [`Outbox`] for each client ([`Frontends::outbox`]), joins with
//! it those who watch a session ([`Frontends::join`]), hands over what the client sends
//! ([`Client::take`]) and sends what the outbox gives out ([`Outbox::next`]): for each message its
//! channel, header, parent, metadata, content and buffers, as bytes.
//!
//! - `watched`: the sessions that are watched; - `hub`: one of them: what is published, and to whom;
//! - `telling`: one cell is told to its end before the next begins; - `late`: what is printed between
//!   cells;
//! - `others`: what cells do that came another way, and the kernel; - `requests`: what one client
//!   wants, one after the other; - `cell`: runs a cell for it; - `content`: the words of all answers;
//! - `asking`: what it asks between cells; - `keyboard`: what cells ask it;
//! - `message`: messages on their way in and out; - `outbox`: what waits for one client;
//! - `budget`: what waits for all together.

mod asking;
mod budget;
mod cell;
mod content;
mod hub;
mod keyboard;
mod late;
mod message;
mod others;
mod outbox;
mod requests;
mod telling;
mod watched;

pub use hub::Joined;
pub use message::{Outgoing, Request, RequestFault};
pub use outbox::{Item, Next, Outbox, Why};
pub use requests::{BeforeCell, Client};
pub use watched::Frontends;
