//! Work that blocks, in a thread of its own.

use std::io;
use std::thread;

use tokio::sync::oneshot;

use super::ProcessError;

/// Does work that blocks in a thread of its own, and waits for its end. The pool of the runtime does
/// the same, but panics where no thread can be had.
///
/// # Errors
///
/// If no thread can be had.
///
/// # Cancel safety
///
/// If dropped, the work goes on and its end is not heard of.
pub async fn in_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessError> {
    let (answer, answered) = oneshot::channel();
    start_thread("blocking", move || drop(answer.send(work())))?;
    answered.await.map_err(|_it_panicked| ProcessError::Thread {
        source: io::Error::other("it ended early"),
    })
}

/// Starts a thread that nobody waits for.
///
/// # Errors
///
/// If none can be had.
pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ProcessError> {
    let builder = thread::Builder::new().name(name.to_owned());
    let started = builder.spawn(work);
    // Dropping its handle lets it go on.
    started
        .map(drop)
        .map_err(|source| ProcessError::Thread { source })
}

/// Whether threads can be had at all: for those who would panic if not.
///
/// # Errors
///
/// If none can be had.
pub fn try_thread() -> Result<(), ProcessError> {
    let probe = thread::Builder::new().spawn(|| ());
    let probe = probe.map_err(|source| ProcessError::Thread { source })?;
    // It does nothing, so it cannot have failed.
    probe.join().ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_its_panic_is_an_error() {
        let own = thread::current().id();
        let other = in_a_thread(|| thread::current().id()).await.unwrap();
        assert_ne!(own, other);
        let failed = in_a_thread(|| panic!("a panic that the test wants"));
        assert!(matches!(failed.await, Err(ProcessError::Thread { .. })));
    }
}
