//! The states of a session's kernel, as pure rules.

use serde::Serialize;

/// What the kernel of a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelState {
    /// A process is being forked.
    Starting,
    /// It waits for a cell.
    Idle,
    /// A cell runs.
    Busy,
    /// A cell runs and was interrupted.
    Interrupting,
    /// It was lost and the next one is being forked.
    Restarting,
    /// There is none.
    Dead,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Somebody needs a kernel.
    Start,
    /// The process is there.
    Started,
    /// It could not be started.
    StartFailed,
    /// A cell was handed to it.
    CellSent,
    /// The cell was interrupted, the kernel is left alive for now.
    Interrupted,
    /// The cell has ended, the kernel lives.
    CellEnded,
    /// The process is gone and the next one is wanted.
    Lost,
    /// The process is gone and nobody wants another.
    Ended,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// What it was.
    pub from: KernelState,
    /// What it is now.
    pub to: KernelState,
}

impl KernelState {
    /// The state after a trigger, or `None` where the trigger has no meaning in this state.
    pub fn after(self, trigger: Trigger) -> Option<Self> {
        use KernelState::{Busy, Dead, Idle, Interrupting, Restarting, Starting};
        match (self, trigger) {
            (Dead, Trigger::Start) => Some(Starting),
            (Starting | Restarting, Trigger::Started)
            | (Busy | Interrupting, Trigger::CellEnded) => Some(Idle),
            (Idle, Trigger::CellSent) => Some(Busy),
            (Busy, Trigger::Interrupted) => Some(Interrupting),
            (Idle | Busy | Interrupting | Starting, Trigger::Lost) => Some(Restarting),
            (Starting | Restarting, Trigger::StartFailed)
            | (Idle | Busy | Interrupting | Starting | Restarting, Trigger::Ended) => Some(Dead),
            _ => None,
        }
    }

    /// Applies a trigger; the change, if it is one.
    pub fn apply(&mut self, trigger: Trigger) -> Option<Transition> {
        let to = self.after(trigger)?;
        let from = std::mem::replace(self, to);
        (from != to).then_some(Transition { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [KernelState; 6] = [
        KernelState::Starting,
        KernelState::Idle,
        KernelState::Busy,
        KernelState::Interrupting,
        KernelState::Restarting,
        KernelState::Dead,
    ];

    #[test]
    fn a_life_goes_through_the_states_in_order() {
        use KernelState::{Busy, Dead, Idle, Interrupting, Restarting, Starting};

        let mut state = Dead;
        let seen: Vec<KernelState> = [
            Trigger::Start,
            Trigger::Started,
            Trigger::CellSent,
            Trigger::Interrupted,
            Trigger::CellEnded,
            Trigger::CellSent,
            Trigger::Lost,
            Trigger::Started,
            Trigger::Ended,
        ]
        .into_iter()
        .map(|trigger| state.apply(trigger).unwrap().to)
        .collect();
        assert_eq!(
            seen,
            [
                Starting,
                Idle,
                Busy,
                Interrupting,
                Idle,
                Busy,
                Restarting,
                Idle,
                Dead
            ]
        );
    }

    #[test]
    fn what_has_no_meaning_changes_nothing() {
        for mut state in ALL {
            let before = state;
            if !matches!(state, KernelState::Idle) {
                assert_eq!(state.apply(Trigger::CellSent), None);
            }
            if !matches!(state, KernelState::Busy) {
                assert_eq!(state.apply(Trigger::Interrupted), None);
            }
            assert_eq!(state, before);
        }
    }
}
