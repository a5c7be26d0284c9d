//! Work that blocks, in a thread of its own.

use std::io;
use std::sync::mpsc;
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

/// Something that one thread alone works on, one job after the other.
///
/// When this is dropped the thread ends after the job that it is at, and drops what it has.
#[derive(Debug)]
pub struct OwnThread<T> {
    jobs: mpsc::Sender<Job<T>>,
}

/// What the thread is to do with what it has.
type Job<T> = Box<dyn FnOnce(&mut T) + Send>;

impl<T: Send + 'static> OwnThread<T> {
    /// Starts a thread that has this.
    ///
    /// # Errors
    ///
    /// If none can be had.
    pub fn start(name: &str, mut own: T) -> Result<Self, ProcessError> {
        let (jobs, queue) = mpsc::channel::<Job<T>>();
        start_thread(name, move || {
            for job in queue {
                job(&mut own);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Has this done, after what was asked for before.
    ///
    /// # Errors
    ///
    /// If the thread has panicked.
    ///
    /// # Cancel safety
    ///
    /// If dropped, the work is done and its end not heard of.
    pub async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, ProcessError> {
        let (answer, answered) = oneshot::channel();
        let gone = || ProcessError::Thread {
            source: io::Error::other("it ended early"),
        };
        let job: Job<T> = Box::new(move |own| drop(answer.send(work(own))));
        self.jobs.send(job).map_err(|_its_end| gone())?;
        answered.await.map_err(|_it_panicked| gone())
    }
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

    #[tokio::test]
    async fn a_thread_keeps_what_it_has_and_does_one_job_after_the_other() {
        let thread = OwnThread::start("test", Vec::new()).unwrap();
        for number in 0..3 {
            let count = thread.run(move |own: &mut Vec<i32>| {
                own.push(number);
                own.len()
            });
            assert_eq!(count.await.unwrap(), usize::try_from(number).unwrap() + 1);
        }
        let failed = thread.run(|_| panic!("a panic that the test wants")).await;
        assert!(matches!(failed, Err(ProcessError::Thread { .. })));
        assert!(thread.run(|_| ()).await.is_err());
    }
}
