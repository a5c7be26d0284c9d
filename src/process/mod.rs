//! The only room that starts, signals and waits for processes.
//!
//! Everything here works on descriptors, not on process numbers: a pidfd names one process for
//! ever, so a signal never reaches a stranger. Linux only; the calls of other systems will stand
//! beside these behind `cfg`.

mod changes;
mod control;
mod error;
mod foreground;
mod handover;
mod holdings;
mod leftovers;
mod limits;
mod orphans;
mod pidfd;
mod pipes;
mod privacy;
mod refused;
mod running;
mod serve;
mod spawn;
mod stream;
mod thread;
mod usage;
mod watch;

pub use changes::PathWatch;
pub use control::{ControlSocket, MAX_CONTROL_MESSAGE_BYTES};
pub use error::{ProcessError, in_words};
pub use foreground::{Foreground, StartTick};
pub use handover::{hand_over, taken_over};
pub use holdings::{Holdings, holdings};
pub use leftovers::{Leftover, left_by, leftovers};
pub use limits::{
    leave_limits_of_starter, leave_nice_value_of_starter, nofile_limits, own_limits, raise_nofile,
    survive_file_size_limit, try_descriptors,
};
pub use orphans::{Marker, adopt_orphans, end_orphans, is_descendant, reap_orphans};
pub use pidfd::{Pidfd, Signal};
pub use pipes::{
    InterruptNumber, InterruptPage, PipeReader, ReadOutcome, memory_file, output_pipe, socket_pair,
};
pub use privacy::{hide_memory, mend_name, start_anew};
pub use refused::until_worth_another_try;
pub use running::{RunningProgram, running_program};
pub use serve::{leave_session, let_go_of_standard_streams, start_server};
pub use spawn::{Program, Spawned, Stdio, spawn};
pub use stream::StreamEnd;
pub use thread::{OwnThread, in_a_thread, start_thread, try_thread};
pub use usage::{Usage, directory_of, usage};
