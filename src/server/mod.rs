//! The door of a manager: HTTP on a Unix socket, for the command line, other programs and Jupyter
//! front ends.
//!
//! A request goes `door` (who may come in) -> `routes` (where to) -> `cells` or `sessions` (what is
//! done) -> the registry behind `manager`. `order` is what is asked for and `wire` what is answered, as
//! clients know it; `keys` reads objects (`faults`: what may be wrong with them), `body` what is sent within limits; `lines` is an answer that
//! comes as things happen, `stream` that of a cell; `refusal` says no, `words` and `misheard` see to it
//! that nothing else does in words of its own. `published` is a socket under its name, `keeping` has it
//! come back when it is removed, `whereabouts` says where it is to those who do not find it.
//! `background` is the life of the one server that a user's command line starts by itself.

mod background;
mod body;
mod cells;
mod configured;
mod door;
mod error;
mod faults;
mod jupyter;
mod keeping;
mod kernel_order;
mod keys;
mod limits;
mod lines;
mod manager;
mod misheard;
mod order;
mod published;
mod refusal;
mod routes;
mod sessions;
mod stream;
mod tcp;
mod whereabouts;
mod wire;
mod words;

pub use background::{BackgroundServer, Ended};
pub use door::Door;
pub use error::ServerError;
pub use faults::OrderError;
pub use kernel_order::KernelOrder;
pub use limits::{LimitsOrder, NiceOrder};
pub use manager::Manager;
pub use order::{CallerOrder, CellOrder, InterruptOrder, PolicyName};
pub use tcp::{TcpDoor, Token, TokenError};
pub use wire::{
    Finished, InterruptAnswer, Line, ManagerInfo, ROOT, Refused, VERSION, VERSION_HEADER,
};
