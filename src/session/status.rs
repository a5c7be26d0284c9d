//! What a session is doing and what it holds, as far as that is known without asking its kernel.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::record::Record;
use crate::kernel::{Kernel, KernelState, WeakKernel};
use crate::tools::Authority;

/// What a session is doing. Keys that do not apply are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionStatus {
    /// Its name.
    pub name: String,
    /// What its kernel is doing; `dead` before the first cell.
    pub state: KernelState,
    /// Which kernel of the session, from 1; 0 before the first.
    pub generation: u64,
    /// Cells that this kernel has completed, with an exception too.
    pub cells: u64,
    /// Cells that have run in this session, in all its kernels and however they ended.
    pub cells_total: u64,
    /// Cells that this kernel was given, the running one included.
    pub execution_count: u64,
    /// Cells that wait for their turn.
    pub waiting: usize,
    /// Tool calls that were made in this session, those of the running cell included.
    pub tool_calls: u64,
    /// The process number of the kernel, while there is one; of one that is not ours that of the bridge
    /// in front of it, whose child it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pid: Option<u32>,
    /// The kernelspec of its kernels, where they are not ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The Python of its kernels, from the first kernel on; of those that are not ours the Python that
    /// forks their bridges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PythonInfo>,
    /// The directory in which its kernel is now (with ` (deleted)` behind it, if that is not there any
    /// more); while there is none, the one in which the next starts.
    #[serde(serialize_with = "displayed")]
    pub cwd: PathBuf,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When the last cell ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cell_ended_at: Option<Timestamp>,
    /// The cell that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningCell>,
}

/// A Python that runs kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PythonInfo {
    /// `sys.executable`.
    #[serde(serialize_with = "displayed")]
    pub executable: PathBuf,
    /// The version, as in `3.11.7`.
    pub version: String,
}

/// A cell that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningCell {
    /// Its number in the session.
    pub cell: u64,
    /// When it was handed to the kernel.
    pub since: Timestamp,
    /// Tool calls that it has made so far.
    pub tool_calls: u64,
    /// Its number in its kernel, as in `<cell N>`.
    #[serde(skip)]
    pub execution_count: u64,
    /// Its code; of a long one the beginning, 16 KiB, and how much is missing.
    #[serde(skip)]
    pub code: Arc<str>,
}

/// A path is any bytes, JSON is not.
fn displayed<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// What the task of a session notes for those who ask how it is.
#[derive(Debug)]
pub(super) struct Facts {
    opened_at: Timestamp,
    now: Mutex<Now>,
    record: Mutex<Record>,
}

#[derive(Debug)]
struct Now {
    state: KernelState,
    count: u64,
    /// Where the next kernel starts.
    place: PathBuf,
    /// The kernel, while there is one.
    kernel: Option<(u32, WeakKernel)>,
    foreign: Option<String>,
    /// What a kernel that is not ours says of itself.
    info: Option<Arc<RawValue>>,
    python: Option<PythonInfo>,
    cells_total: u64,
    /// Tool calls of the cells that have ended.
    tool_calls: u64,
    last_cell_ended_at: Option<Timestamp>,
    running: Option<Running>,
    /// The number of the last cell that was handed to a kernel.
    latest_cell: Option<u64>,
    active_at: Timestamp,
}

#[derive(Debug)]
struct Running {
    cell: u64,
    since: Timestamp,
    authority: Arc<Authority>,
    execution_count: u64,
    code: Arc<str>,
}

impl Running {
    fn described(&self) -> RunningCell {
        RunningCell {
            cell: self.cell,
            since: self.since,
            tool_calls: self.authority.made(),
            execution_count: self.execution_count,
            code: Arc::clone(&self.code),
        }
    }
}

impl Facts {
    /// Of a session that is opened now.
    pub(super) fn new(cwd: PathBuf) -> Self {
        let now = Timestamp::now();
        Self {
            opened_at: now,
            now: Mutex::new(Now {
                state: KernelState::Dead,
                count: 0,
                place: cwd,
                kernel: None,
                foreign: None,
                info: None,
                python: None,
                cells_total: 0,
                tool_calls: 0,
                last_cell_ended_at: None,
                running: None,
                latest_cell: None,
                active_at: now,
            }),
            record: Mutex::default(),
        }
    }

    /// What the kernel holds.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a kernel; its kernelspec, if it is not ours.
    pub(super) fn started(&self, kernel: &Kernel, foreign: Option<&str>) {
        let mut now = self.now();
        now.foreign = foreign.map(str::to_owned);
        now.info = kernel.info().map(|info| Arc::from(info.to_owned()));
        now.kernel = Some((kernel.pid(), kernel.downgrade()));
        let interpreter = kernel.interpreter();
        now.python = Some(PythonInfo {
            executable: interpreter.executable.clone(),
            version: interpreter.version.clone(),
        });
    }

    /// What the kernel that was started last says of itself, if it is not ours.
    pub(super) fn info(&self) -> Option<Arc<RawValue>> {
        self.now().info.clone()
    }

    /// The next kernel starts here.
    pub(super) fn starts_in(&self, place: PathBuf) {
        self.now().place = place;
    }

    /// Whether there was a kernel.
    pub(super) fn had_kernel(&self) -> bool {
        self.now().python.is_some()
    }

    /// How many cells the kernel was given; 0 if there is none.
    pub(super) fn given(&self) -> u64 {
        self.now().count
    }

    /// A cell is about to be handed to the kernel.
    pub(super) fn begins(
        &self,
        cell: u64,
        execution_count: u64,
        code: Arc<str>,
        authority: Arc<Authority>,
    ) {
        let since = Timestamp::now();
        let mut now = self.now();
        now.active_at = since;
        now.latest_cell = Some(cell);
        now.running = Some(Running {
            cell,
            since,
            authority,
            execution_count,
            code,
        });
    }

    /// The cell that was handed to the kernel and has not ended. Before its end is told, it is gone
    /// from here.
    pub(super) fn running(&self) -> Option<RunningCell> {
        self.now().running.as_ref().map(Running::described)
    }

    /// The number of the last cell that was handed to a kernel.
    pub(super) fn latest_cell(&self) -> Option<u64> {
        self.now().latest_cell
    }

    /// Something is being done.
    pub(super) fn touch(&self) {
        self.now().active_at = Timestamp::now();
    }

    pub(super) fn last_activity(&self) -> Timestamp {
        self.now().active_at
    }

    /// What the kernel does now, and how many cells it was given. A cell ends with the state that it
    /// has brought about.
    pub(super) fn enter(&self, state: KernelState, count: u64) {
        let mut now = self.now();
        now.state = state;
        now.count = count;
        if !is_busy(state)
            && let Some(running) = now.running.take()
        {
            now.tool_calls += running.authority.made();
            now.active_at = Timestamp::now();
            now.last_cell_ended_at = Some(now.active_at);
        }
        if !is_there(state) {
            now.kernel = None;
        }
    }

    /// A cell that has run has its result.
    pub(super) fn finished(&self) {
        self.now().cells_total += 1;
    }

    /// The process number of the kernel, while there is one.
    pub(super) fn pid(&self) -> Option<u32> {
        self.now().kernel.as_ref().map(|(pid, _)| *pid)
    }

    /// The kernel, if it is idle: during a cell it answers nobody.
    pub(super) fn idle_kernel(&self) -> Option<WeakKernel> {
        let now = self.now();
        let idle = now.state == KernelState::Idle;
        let (_, kernel) = now.kernel.as_ref().filter(|_| idle)?;
        Some(kernel.clone())
    }

    pub(super) fn status(&self, name: String, generation: u64, waiting: usize) -> SessionStatus {
        let cells = self.record().cells();
        let now = self.now();
        let running = now.running.as_ref().filter(|_| is_busy(now.state));
        let running = running.map(Running::described);
        SessionStatus {
            name,
            state: now.state,
            generation,
            cells,
            cells_total: now.cells_total,
            execution_count: now.count,
            waiting,
            tool_calls: now.tool_calls + running.as_ref().map_or(0, |it| it.tool_calls),
            kernel_pid: now.kernel.as_ref().map(|(pid, _)| *pid),
            kernel: now.foreign.clone(),
            python: now.python.clone(),
            cwd: now.place.clone(),
            opened_at: self.opened_at,
            last_cell_ended_at: now.last_cell_ended_at,
            running,
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a cell is in the kernel's hands.
fn is_busy(state: KernelState) -> bool {
    matches!(state, KernelState::Busy | KernelState::Interrupting)
}

/// Whether the kernel is there.
fn is_there(state: KernelState) -> bool {
    is_busy(state) || state == KernelState::Idle
}
