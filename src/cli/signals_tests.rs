use std::future::{pending, ready};

use rustix::process::{Signal as Number, getpid, kill_process};

use super::*;
use crate::execution::{ErrorClass, Interrupt};

/// A cell that ends like that, once a signal has tried to interrupt it.
async fn cell(interrupt: &Interrupt, class: ErrorClass) -> Outcome {
    interrupt.cancelled().await;
    Outcome::not_run(class, "", 1)
}

// One test: signals are for the whole process.
#[tokio::test]
async fn a_signal_counts_once_and_is_not_lost_at_the_end_of_a_cell() {
    let (mut signals, taken) = (Signals::new().unwrap(), Taken::default());
    let send = || kill_process(getpid(), Number::HUP).unwrap();
    // It comes as the cell ends by itself: it counts for what is written next.
    send();
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Exception);
    signals.interrupting(&interrupt, ended).await;
    let writing = signals.while_read(&taken, false, pending::<()>());
    assert_eq!(writing.await, None);
    // It has interrupted its cell: it does not count again.
    send();
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Interrupted);
    signals.interrupting(&interrupt, ended).await;
    assert!(
        signals
            .unless_one_comes(tokio::task::yield_now())
            .await
            .is_some()
    );
    // What can be written at once is written, and the next cell is the one that is interrupted.
    send();
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Exception);
    signals.interrupting(&interrupt, ended).await;
    assert_eq!(signals.while_read(&taken, false, ready(1)).await, Some(1));
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Interrupted);
    signals.interrupting(&interrupt, ended).await;
}
