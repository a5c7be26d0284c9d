//! The door of a manager: HTTP on a Unix socket, for the command line, other programs and Jupyter
//! front ends.
//!
//! A request goes `door` (who may come in) -> `routes` (where to) -> `cells` or `sessions` (what is
//! done) -> the registry behind `manager`. `wire` holds the shapes that clients know too, `lines` an
//! answer that comes as things happen, `body` reads what is sent within limits, `refusal` says no.
//! `published` is a socket under its name, `keeping` has it come back when it is removed, `whereabouts` says
//! where it is to those who do not find it.
//! `background` is the life of the one server that a user's command line starts by itself.

mod background;
mod body;
mod cells;
mod door;
mod error;
mod jupyter;
mod keeping;
mod limits;
mod lines;
mod manager;
mod published;
mod refusal;
mod routes;
mod sessions;
mod tcp;
mod whereabouts;
mod wire;

pub use background::{BackgroundServer, Ended};
pub use door::Door;
pub use error::ServerError;
pub use limits::{LimitsOrder, NiceOrder};
pub use manager::Manager;
pub use tcp::{TcpDoor, Token, TokenError};
pub use wire::{
    CallerOrder, CellOrder, Finished, InterruptAnswer, InterruptOrder, Line, ManagerInfo,
    PolicyName, ROOT, Refused, VERSION, VERSION_HEADER,
};
