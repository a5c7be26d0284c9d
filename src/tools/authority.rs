//! What one cell may do with tools, and what it has done.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Grant, ToolFailure, ToolTable};
use crate::provisioner::JobRunner;

/// One tool call that was dispatched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    /// The tool.
    pub tool: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// Whether its result has no `error`.
    pub ok: bool,
}

/// What a cell has done with tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// Calls that were dispatched, failed ones included, refused ones not.
    pub made: u64,
    /// Them, in order of completion; those that were stopped come last.
    pub calls: Vec<ToolCallRecord>,
    /// Calls that the grant or the budget has refused, and why the first one was.
    pub refused: Option<(u64, String)>,
}

/// Something that happens to a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEvent {
    /// It was dispatched.
    Started {
        /// Its number within the cell, from 1.
        id: u64,
        /// The tool.
        tool: String,
    },
    /// It has ended.
    Finished {
        /// Its number within the cell.
        id: u64,
        /// Whether its result has no `error`.
        ok: bool,
        /// How long it took, in milliseconds.
        ms: u64,
    },
}

/// Told of each event; must not block.
pub type ToolObserver = Arc<dyn Fn(ToolEvent) + Send + Sync>;

/// The terms of one cell.
#[derive(Clone)]
pub struct Terms {
    /// The number of the cell.
    pub cell: u64,
    /// Which tools it may call.
    pub grant: Grant,
    /// How many calls.
    pub max_calls: u32,
    /// The end of its time.
    pub deadline: Option<Instant>,
    /// Runs its commands.
    pub jobs: Arc<dyn JobRunner>,
    /// The environment of its commands.
    pub environment: Arc<Vec<(String, String)>>,
    /// The time limit of its commands that name none; that of the server if none.
    pub terminal_timeout: Option<Duration>,
    /// Watches its calls.
    pub observer: Option<ToolObserver>,
}

impl Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms")
            .field("cell", &self.cell)
            .field("grant", &self.grant)
            .field("max_calls", &self.max_calls)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Ledger {
    made: u64,
    calls: Vec<ToolCallRecord>,
    /// Calls under way: number, tool, start.
    under_way: Vec<(u64, &'static str, Instant)>,
    /// Calls that were refused, and why the first one was.
    refused: Option<(u64, String)>,
}

/// The authority of one cell to call tools.
#[derive(Debug)]
pub struct Authority {
    terms: Terms,
    cancelled: CancellationToken,
    /// That of the calls in flight.
    in_flight: Mutex<CancellationToken>,
    retired: AtomicBool,
    ledger: Mutex<Ledger>,
}

/// A call that was dispatched. Dropping it enters it as stopped.
#[derive(Debug)]
pub(super) struct Dispatched {
    authority: Arc<Authority>,
    id: u64,
}

impl Authority {
    /// The authority of a cell that begins.
    pub fn new(terms: Terms) -> Arc<Self> {
        let cancelled = CancellationToken::new();
        Arc::new(Self {
            terms,
            in_flight: Mutex::new(cancelled.child_token()),
            cancelled,
            retired: AtomicBool::new(false),
            ledger: Mutex::default(),
        })
    }

    /// The terms.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Fires when the cell has ended.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Calls that were dispatched so far, failed ones included, refused ones not.
    pub fn made(&self) -> u64 {
        self.ledger().made
    }

    /// Fires when calls that are made now are to stop: the cell was interrupted or has ended.
    pub(super) fn in_flight(&self) -> CancellationToken {
        self.calls_in_flight().clone()
    }

    /// Stops the calls in flight, and those that wait for a place. The cell may make others.
    pub fn interrupt(&self) {
        let next = self.cancelled.child_token();
        let stopped = std::mem::replace(&mut *self.calls_in_flight(), next);
        stopped.cancel();
    }

    /// Whether the cell has ended.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// What a call is told that was stopped.
    pub(super) fn stopped(&self) -> ToolFailure {
        let sentence = if self.is_retired() {
            "the cell has ended"
        } else {
            "the cell was interrupted"
        };
        ToolFailure::new("interrupted", sentence)
    }

    /// Ends it: work in flight is stopped, later calls are refused. Says what was done.
    pub fn retire(&self) -> ToolUse {
        let mut ledger = self.ledger();
        self.retired.store(true, Ordering::Release);
        self.cancelled.cancel();
        for (id, tool, began) in std::mem::take(&mut ledger.under_way) {
            self.enter(&mut ledger, id, tool, began.elapsed(), false);
        }
        ToolUse {
            made: ledger.made,
            calls: ledger.calls.clone(),
            refused: ledger.refused.clone(),
        }
    }

    /// What was done so far.
    pub fn so_far(&self) -> ToolUse {
        let ledger = self.ledger();
        ToolUse {
            made: ledger.made,
            calls: ledger.calls.clone(),
            refused: ledger.refused.clone(),
        }
    }

    /// Enters a call, if the cell may make it.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        tool: &'static str,
        table: &ToolTable,
    ) -> Result<Dispatched, ToolFailure> {
        let dispatched = self.admit(tool, table);
        if let Err(failure) = &dispatched {
            // A cell may overlook what a call returned; its result tells it in any case.
            let mut ledger = self.ledger();
            let first = (0, failure.message.clone());
            ledger.refused.get_or_insert(first).0 += 1;
        }
        dispatched
    }

    fn admit(
        self: &Arc<Self>,
        tool: &'static str,
        table: &ToolTable,
    ) -> Result<Dispatched, ToolFailure> {
        if !self.terms.grant.allows(tool) {
            let callable = self.terms.grant.in_words(table);
            return Err(ToolFailure::refused(format!(
                "tool '{tool}' is not granted to this cell; {callable}"
            )));
        }
        let mut ledger = self.ledger();
        if self.retired.load(Ordering::Acquire) {
            return Err(no_active_cell(self.terms.cell));
        }
        let limit = self.terms.max_calls;
        if ledger.made >= u64::from(limit) {
            return Err(ToolFailure::new(
                "limit",
                format!("tool call limit reached ({limit} in this cell)"),
            ));
        }
        ledger.made += 1;
        let id = ledger.made;
        ledger.under_way.push((id, tool, Instant::now()));
        // Told before anybody can tell of its end.
        self.tell(|| ToolEvent::Started {
            id,
            tool: tool.to_owned(),
        });
        drop(ledger);
        Ok(Dispatched {
            authority: Arc::clone(self),
            id,
        })
    }

    fn finish(&self, id: u64, ok: bool) {
        let mut ledger = self.ledger();
        let found = ledger
            .under_way
            .iter()
            .position(|(under_way, ..)| *under_way == id);
        // After the end of the cell it was entered already.
        if let Some(at) = found {
            let (_, tool, began) = ledger.under_way.swap_remove(at);
            self.enter(&mut ledger, id, tool, began.elapsed(), ok);
        }
    }

    fn enter(&self, ledger: &mut Ledger, id: u64, tool: &str, took: Duration, ok: bool) {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        ledger.calls.push(ToolCallRecord {
            tool: tool.to_owned(),
            ms,
            ok,
        });
        self.tell(|| ToolEvent::Finished { id, ok, ms });
    }

    fn tell(&self, event: impl FnOnce() -> ToolEvent) {
        if let Some(observer) = &self.terms.observer {
            observer(event());
        }
    }

    fn calls_in_flight(&self) -> MutexGuard<'_, CancellationToken> {
        self.in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dispatched {
    /// The call has a result.
    pub(super) fn finished(self, ok: bool) {
        self.authority.finish(self.id, ok);
    }
}

impl Drop for Dispatched {
    fn drop(&mut self) {
        self.authority.finish(self.id, false);
    }
}

/// The refusal of a call that belongs to a cell that has ended.
pub(super) fn no_active_cell(cell: u64) -> ToolFailure {
    ToolFailure::refused(format!(
        "no active cell: the cell that started this code (number {cell} of the session) has ended, \
         and its tool calls with it; call tools from the cell that runs now"
    ))
}
