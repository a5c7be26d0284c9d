//! The turn of one cell: brings the session's kernel to where the cell's caller wants it, and runs it.

use std::sync::Arc;
use std::time::Duration;

use super::following::{Configured, Step};
use super::slot::{Next, NoKernel};
use super::untold::Received;
use super::worker::Worker;
use super::{Cell, Policy};
use crate::execution::{
    CellRun, Cost, ErrorClass, How, Interrupt, LiveSender, Outcome, Progress, Stop,
};
use crate::kernel::Kernel;
use crate::output::redact::Redactor;
use crate::provisioner::ProvisionError;

impl Worker {
    /// Runs a cell as its caller wants it, and makes its result.
    pub(super) async fn execute(
        &mut self,
        cell: &Cell,
        progress: &Progress,
        interrupt: &Interrupt,
        live: Option<LiveSender>,
        received: &Arc<Received>,
    ) -> Outcome {
        self.keeper.notice_trouble();
        let configured = Configured::of(&self.terms.settings);
        if let Some(sentence) = self.following.misplaced(cell, &configured) {
            let kernel = self.shared.untouched();
            return Outcome::not_run(ErrorClass::Usage, sentence, kernel);
        }
        for sentence in &cell.warnings {
            self.keeper.notice(sentence.clone());
        }
        let (place, interpreter) = (self.keeper.place(), self.keeper.interpreter());
        let mut step = self.following.step(cell, place, interpreter, &configured);
        if let Err(outcome) = self.prepare(cell, &mut step, interrupt).await {
            return outcome;
        }
        // What the cell does may cost the kernel, and the next one starts there too.
        let former = step.directory.clone().map(|it| self.keeper.start_in(it));
        let attempt = self.attempt(cell, &step, progress, interrupt, live);
        match attempt.await {
            Ok(run) => {
                if let Some(sentence) = self.following.followed(step) {
                    self.keeper.notice(sentence);
                }
                if let Some(sentence) = self.belongings.told(self.keeper.kernel_folder()).await {
                    self.keeper.notice(sentence);
                }
                self.finish(run, cell, received).await
            }
            Err(outcome) => {
                if let Some(former) = former {
                    self.keeper.start_in(former);
                }
                outcome
            }
        }
    }

    /// Sees to it that the kernel is one that the cell's caller may have; the result if there is
    /// none.
    async fn prepare(
        &mut self,
        cell: &Cell,
        step: &mut Step,
        interrupt: &Interrupt,
    ) -> Result<(), Outcome> {
        let Some(anew) = step.anew.take() else {
            if cell.reset {
                drop(self.keeper.reset().await);
            }
            return Ok(());
        };
        match self.keeper.renew(&anew, interrupt).await {
            Ok(true) => {
                self.terms.commands_environment = self.keeper.commands();
                self.following.taken_over(anew);
                // It was started there.
                step.directory = None;
                Ok(())
            }
            Ok(false) => {
                self.following.is_the_same(anew);
                Ok(())
            }
            Err(error) => Err(self.without_kernel(error, true)),
        }
    }

    /// The result of a cell for which there is no kernel.
    pub(super) fn without_kernel(&self, error: NoKernel, asked_for: bool) -> Outcome {
        let (class, sentence) = match error {
            NoKernel::Failed(error) => {
                let wrong_place = matches!(error, ProvisionError::WorkingDirectory { .. });
                let class = if wrong_place && asked_for {
                    ErrorClass::Usage
                } else {
                    ErrorClass::Unavailable
                };
                let kept = if self.keeper.count() > 0 {
                    "; the session's own kernel is kept, with its state"
                } else {
                    ""
                };
                (class, format!("no kernel could be started: {error}{kept}"))
            }
            NoKernel::Interrupted => {
                let sentence = "interrupted while its kernel was started; it did not run";
                (ErrorClass::Interrupted, sentence.to_owned())
            }
        };
        // What a kernel or a Python said that did not start stands in it.
        let (sentence, redacted) = Redactor::once(self.keeper.starter.rules(), &sentence);
        Outcome {
            redacted,
            ..Outcome::not_run(class, sentence, self.shared.untouched())
        }
    }

    /// The kernel for a cell. If the place in which the session's kernels start is not there any more,
    /// and the cell names none, it starts where its caller is.
    async fn kernel(
        &mut self,
        cell: &Cell,
        step: &Step,
        interrupt: &Interrupt,
    ) -> Result<Kernel, NoKernel> {
        let error = match self.keeper.kernel(interrupt).await {
            Ok(kernel) => return Ok(kernel),
            Err(error) => error,
        };
        let here = self.following.place_of(cell);
        let NoKernel::Failed(ProvisionError::WorkingDirectory { cwd, reason }) = &error else {
            return Err(error);
        };
        if step.directory.is_some() || here == *cwd {
            return Err(error);
        }
        let sentence = format!(
            "the directory of the session's kernel is not there any more ({}: {reason}): its new kernel \
             was started in the caller's, {}",
            cwd.display(),
            here.display()
        );
        let former = self.keeper.start_in(here);
        let started = self.keeper.kernel(interrupt).await;
        match &started {
            Ok(_) => self.keeper.notice(sentence),
            Err(_) => drop(self.keeper.start_in(former)),
        }
        started
    }

    pub(super) fn timeout_of(&self, cell: &Cell) -> Duration {
        cell.timeout.unwrap_or(self.terms.settings.limits.timeout)
    }

    /// Runs the cell; the result if it did not run.
    async fn attempt(
        &mut self,
        cell: &Cell,
        step: &Step,
        progress: &Progress,
        interrupt: &Interrupt,
        live: Option<LiveSender>,
    ) -> Result<CellRun, Outcome> {
        // The second time it is the kernel that was started for this cell.
        for last in [false, true] {
            let kernel = match self.kernel(cell, step, interrupt).await {
                Ok(kernel) => kernel,
                Err(error) => {
                    let here = self.following.place_of(cell);
                    // One that is not there any more, but was, is no mistake of the caller's.
                    let never_ran = self.keeper.generation() == 0;
                    let is_its_own =
                        step.directory.is_some() || (never_ran && here == self.keeper.place());
                    return Err(self.without_kernel(error, is_its_own));
                }
            };
            self.tools.admit(kernel.pid());
            let policy = cell.on_interrupt;
            let policy = policy.unwrap_or(self.terms.settings.on_interrupt);
            let in_place = policy == Policy::Interrupt || interrupt.is_in_place();
            let is_gentle = in_place && !interrupt.is_forced();
            let ran = if interrupt.is_cancelled() && is_gentle {
                let sentence = "interrupted before it began; it did not run";
                let kernel = self.shared.untouched();
                return Err(Outcome::not_run(ErrorClass::Interrupted, sentence, kernel));
            } else if interrupt.is_cancelled() {
                // It was interrupted while its kernel was started.
                kernel.kill();
                Ok(CellRun::without_output(How::Lost(
                    Stop::Interrupt,
                    Cost::Killed,
                )))
            } else {
                self.run_cell(&kernel, cell, step, progress, interrupt, live.clone())
                    .await
            };
            match ran {
                Ok(CellRun {
                    how: How::NotStarted(death),
                    ..
                }) if !last => {
                    // It died while nobody looked; the cell has not run yet.
                    self.keeper.died(&death, Next::Restart);
                }
                Ok(mut run) => {
                    let Some(sentence) = step.refusal(&run.how) else {
                        return Ok(run);
                    };
                    self.keeper.refused(run.background.take());
                    let kernel = self.shared.untouched();
                    return Err(Outcome::not_run(ErrorClass::Usage, sentence, kernel));
                }
                Err(error) => {
                    self.keeper.refused(None);
                    let (sentence, kernel) = (error.to_string(), self.shared.untouched());
                    return Err(Outcome::not_run(ErrorClass::Usage, sentence, kernel));
                }
            }
        }
        Err(Outcome::not_run(
            ErrorClass::KernelDied,
            "the kernel died as it started",
            self.shared.untouched(),
        ))
    }
}
