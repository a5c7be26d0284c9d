//! Another kernel in the place of a session's own, as a caller wants it, or none where nobody does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::following::Anew;
use super::keeper::{Keeper, patiently};
use super::late::LateOutput;
use super::slot::{Next, NoKernel, Slot};
use super::starter::Variables;
use crate::environment::Interpreter;
use crate::execution::{Interrupt, LossReason};
use crate::kernel::Trigger;

impl Keeper {
    /// The Python of the kernels that were started.
    pub(super) fn interpreter(&self) -> Option<&Interpreter> {
        self.starter.interpreter()
    }

    /// Where the next kernel starts.
    pub(super) fn place(&self) -> &Path {
        self.starter.place()
    }

    /// From now on kernels start here; where they started before.
    pub(super) fn start_in(&mut self, place: PathBuf) -> PathBuf {
        self.shared.facts.starts_in(place.clone());
        self.starter.start_in(place)
    }

    /// The environment of commands that tools run.
    pub(super) fn commands(&self) -> Variables {
        self.starter.commands()
    }

    /// Puts a kernel as another caller wants it in the place of this one; false if only another
    /// interpreter is wanted, and it is the same. It is there before the old one goes: if it cannot
    /// be had nothing is lost.
    pub(super) async fn renew(
        &mut self,
        anew: &Anew,
        interrupt: &Interrupt,
    ) -> Result<bool, NoKernel> {
        let starter =
            self.starter
                .for_caller(&anew.caller, &anew.place, anew.mode, &anew.configured);
        let mut starting = tokio::spawn(
            starter
                .clone()
                .start(LateOutput::of(&self.shared, starter.rules())),
        );
        let Some(started) = patiently(&mut starting, interrupt).await else {
            starting.abort();
            return Err(NoKernel::Interrupted);
        };
        let kernel = started.map_err(NoKernel::Failed)?;
        let mut detail = anew.reason.word().to_owned();
        let asked = if anew.by_configuration {
            "is configured now"
        } else {
            "was asked for"
        };
        if let Some(name) = &anew.kernel {
            detail = format!("{detail}: the kernel {name} was asked for");
        } else if anew.reason == LossReason::Replaced && anew.other_mode {
            detail = format!("{detail}: mode {} {asked}", anew.mode);
        } else if anew.reason == LossReason::Replaced {
            let wanted = kernel.interpreter();
            if self.starter.foreign().is_none() && self.starter.has_interpreter(wanted) {
                return Ok(false);
            }
            let (version, path) = (&wanted.version, wanted.executable.display());
            detail = format!("{detail}: Python {version} {asked}, {path}");
        }
        self.shut_down().await;
        if self.count > 0 {
            let death = self.death();
            self.lost(anew.reason, &detail, &death, Next::Wait);
        } else {
            self.discard(&detail);
        }
        self.starter = starter;
        self.shared.facts.starts_in(anew.place.clone());
        self.trigger(Trigger::Start, "its kernel is another one");
        self.set_generation(self.generation + 1);
        self.started(Ok(kernel)).map_err(NoKernel::Failed)?;
        Ok(true)
    }

    /// Ends a kernel that has had nothing to do for so long, in good order.
    pub(super) async fn reap(&mut self, idle: Duration) {
        self.shut_down().await;
        let reason = LossReason::Idle;
        if self.count > 0 {
            let detail = format!("{} {} s", reason.word(), idle.as_secs_f64());
            let death = self.death();
            self.lost(reason, &detail, &death, Next::Wait);
        } else {
            self.discard(reason.word());
        }
    }

    /// A kernel that has run nothing, and so holds nothing, goes.
    fn discard(&mut self, reason: &str) {
        match &self.slot {
            Slot::Empty => return,
            Slot::Starting(_) => return self.give_up_start(),
            Slot::Ready(kernel) => {
                let printed = kernel.take_background();
                let death = self.death();
                self.keep_background(printed);
                self.exited(&death);
            }
        }
        self.slot = Slot::Empty;
        self.recount();
        self.trigger(Trigger::Ended, reason);
    }

    /// The kernel has refused a cell, and is as it was.
    pub(super) fn refused(&mut self, printed: Option<(String, u64)>) {
        self.keep_background(printed);
        self.count -= 1;
        self.trigger(Trigger::CellEnded, "the cell did not run");
    }
}
