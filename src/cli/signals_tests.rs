use std::future::{pending, ready};

use rustix::process::{Signal as Number, getpid, kill_process};
use tokio::time::advance;

use super::*;
use crate::execution::{ErrorClass, Interrupt, KernelReport};

/// A cell that ends like that, once a signal has tried to interrupt it.
async fn cell(interrupt: &Interrupt, class: ErrorClass) -> Outcome {
    interrupt.cancelled().await;
    Outcome::not_run(class, "", KernelReport::none())
}

/// Lets the time go by in which signals are one.
async fn later() {
    advance(ONE_INTERRUPT).await;
}

// One test: signals are for the whole process.
#[tokio::test(start_paused = true)]
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
    later().await;
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
    later().await;
    send();
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Exception);
    signals.interrupting(&interrupt, ended).await;
    assert_eq!(signals.while_read(&taken, false, ready(1)).await, Some(1));
    let interrupt = Interrupt::new();
    let ended = cell(&interrupt, ErrorClass::Interrupted);
    signals.interrupting(&interrupt, ended).await;
    // Twice at once is once, also if it comes when the cell has been interrupted already; later it is
    // twice.
    later().await;
    let mut arrivals = signal(SignalKind::hangup()).unwrap();
    let interrupt = Interrupt::new();
    send();
    let running = async {
        interrupt.cancelled().await;
        arrivals.recv().await;
        advance(ONE_INTERRUPT / 2).await;
        send();
        arrivals.recv().await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!interrupt.is_forced(), "the same interrupt once more");
        advance(ONE_INTERRUPT / 2).await;
        send();
        interrupt.forced().await;
        Outcome::not_run(ErrorClass::Interrupted, "", KernelReport::none())
    };
    signals.interrupting(&interrupt, running).await;
    assert!(interrupt.is_forced());
}
