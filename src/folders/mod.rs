//! Where sockets, staged files and kernels in strict mode live: private folders, and what becomes of those
//! whose maker is gone; and the files that are kept of cells ([`kept`]).

mod address;
mod claim;
mod doors;
pub mod kept;
mod private;
mod scratch;
mod sockets;

pub use address::ServerAddress;
pub(crate) use claim::{Claim, is_random_name, sweep};
pub use doors::{FolderLock, SERVER_SOCKET, ServerLock, door_folders, doors_in};
pub use private::{is_private, make_private, own_folder, private_bases, private_folder};
pub use scratch::{Scratch, ScratchError, ScratchFolder};
pub use sockets::{FolderError, OwnFolder, socket_folder};
