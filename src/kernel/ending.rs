//! How a cell, and a kernel, can end.

use bytes::Bytes;

use crate::jupyter::ExecuteReply;
use crate::provisioner::KernelExit;

/// How a cell ended.
#[derive(Debug)]
pub struct CellEnd {
    /// What happened.
    pub ending: Ending,
    /// Messages that made no sense and were dropped.
    pub dropped_messages: u64,
    /// What was printed between the previous cell and this one: the last 10,000 bytes, and how many
    /// there were.
    pub background: Option<(String, u64)>,
}

/// What happened to a cell.
#[derive(Debug)]
pub enum Ending {
    /// It ran to its end, an exception included; the kernel lives.
    Replied(Box<ExecuteReply>),
    /// It was a question, and this is the content of the reply.
    Answered(Bytes),
    /// The kernel was gone before the cell could be handed to it: it did not run.
    NotStarted(Death),
    /// The kernel ended while the cell ran.
    Died(Death),
    /// The kernel was killed on request while the cell ran.
    Killed,
}

/// How a kernel ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// The process ended.
    Exited(KernelExit),
    /// It broke the protocol of the link, and was killed.
    BrokeProtocol(String),
    /// It closed its link, and was killed.
    ClosedLink,
    /// It was ended on request.
    Ended,
}

impl Death {
    /// Of a kernel whose reply to a cell was none; its task sees to it that this does not come.
    pub fn answered_no_question() -> Self {
        Self::BrokeProtocol("its reply was that to another request".to_owned())
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(KernelExit::Code(code)) => write!(f, "exited with code {code}"),
            Self::Exited(KernelExit::Signal(signal)) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Exited(KernelExit::ForkserverGone { reason }) => {
                write!(f, "ended because its forkserver {reason}")
            }
            Self::Exited(KernelExit::Unknown) => f.write_str("is gone"),
            Self::BrokeProtocol(what) => write!(f, "broke the protocol: {what}"),
            Self::ClosedLink => f.write_str("closed its link to the manager"),
            Self::Ended => f.write_str("was ended"),
        }
    }
}

/// The name of a signal that ends programs.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        10 => "SIGUSR1",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        16 => "SIGSTKFLT",
        24 => "SIGXCPU, its limit on processor time, ulimit -t",
        25 => "SIGXFSZ, its limit on the size of files, ulimit -f",
        26 => "SIGVTALRM",
        27 => "SIGPROF",
        29 => "SIGIO",
        30 => "SIGPWR",
        31 => "SIGSYS",
        _ => return None,
    })
}
