//! What the end of a cell means for its session, and the result that says so.

use std::sync::Arc;

use super::restart::GLANCE;
use super::slot::Next;
use super::untold::Received;
use super::worker::Worker;
use super::{Cell, Policy};
use crate::execution::{
    CellRun, Cost, How, LossReason, Outcome, Setting, Stop, Story, Successor, outcome_of,
};
use crate::kernel::Death;

impl Worker {
    /// Draws the consequences of how the cell ended, and makes its result.
    pub(super) async fn finish(
        &mut self,
        mut run: CellRun,
        cell: &Cell,
        received: &Arc<Received>,
    ) -> Outcome {
        let timeout = self.timeout_of(cell);
        let (count, generation) = (self.keeper.count(), self.keeper.generation());
        let execution_count = self.keeper.execution_count();
        let earlier_loss = self.keeper.untold();
        let background = self.keeper.background(run.background.take());
        run.redacted += background.masked;
        self.keeper.notice_trouble();
        let mut warnings = self.keeper.notices();
        let killed = Death::Ended;
        let ends_cells = self.shared.ends_cells();
        let loss = match &run.how {
            How::Replied(reply) | How::Stopped(_, reply) => {
                let report = reply.warmcell.as_ref();
                self.keeper.completed(report.map(|report| &report.names));
                if let Some(report) = report {
                    warnings.extend(report.warnings.iter().take(10).cloned());
                    warnings.extend(self.keeper.starter.limits_not_given(&report.limits));
                }
                None
            }
            How::Lost(_, Cost::Died(death)) => Some(self.keeper.died(death, Next::Restart)),
            How::Lost(stop, cost) => {
                let by_itself = *stop == Stop::Timeout && !matches!(cost, Cost::CutShort);
                let ends_cells = ends_cells.filter(|_| !by_itself);
                let reason = ends_cells.unwrap_or_else(|| stop.reason());
                let detail = match reason {
                    LossReason::Timeout => format!("timeout {} s", timeout.as_secs_f64()),
                    reason => reason.word().to_owned(),
                };
                let next = match reason {
                    LossReason::SessionClosed => Next::Wait,
                    _ => Next::Restart,
                };
                Some(self.keeper.lost(reason, &detail, &killed, next))
            }
            How::Died(death) | How::NotStarted(death) => {
                Some(self.keeper.died(death, Next::Restart))
            }
        };
        if ends_cells == Some(LossReason::Reset) {
            self.keeper.discarded = loss.as_ref().map(|loss| loss.lost.clone());
        }
        self.keeper.tell(received, loss.is_none());
        let successor = match &loss {
            Some(loss) if loss.reason != LossReason::SessionClosed => {
                self.keeper.successor(GLANCE).await
            }
            _ => Successor::default(),
        };
        let tools = self.tools.specs();
        let on_timeout = cell.on_timeout.unwrap_or(self.terms.settings.on_timeout);
        let setting = Setting {
            code: &cell.code,
            foreign: self.keeper.starter.foreign(),
            tools: &tools,
            grant: &cell.grant,
            dropped: &|name| self.keeper.starter.why_dropped(name),
            gone: &self.keeper.gone,
            is_interrupted_in_place: on_timeout == Policy::Interrupt,
        };
        let story = Story {
            execution_count,
            generation,
            reused: count > 1,
            first_cell: count <= 1,
            timeout,
            earlier_loss,
            loss,
            successor,
            background: background.told(),
            warnings,
            setting,
            repeats: &mut self.repeats,
        };
        let outcome = outcome_of(run, story);
        tracing::debug!(
            generation,
            execution_count,
            status = ?outcome.status,
            class = ?outcome.error_class,
            exit_code = outcome.exit_code,
            elapsed_ms = outcome.duration_seconds * 1_000.0,
            bytes = outcome.stdout_bytes_total,
            tool_calls = outcome.tool_calls_made,
            repeats = outcome.repeat_of_previous,
            "a cell has ended"
        );
        outcome
    }
}
