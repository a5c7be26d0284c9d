//! When a kernel has had nothing to do for too long.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Longer than anybody waits; what is beyond it is never.
const FOR_EVER: Duration = Duration::from_secs(10 * 366 * 86_400);

/// The time since the last cell. The timer is set anew when it fires, not at each cell: so a cell
/// costs it a look at the clock.
#[derive(Debug)]
pub(super) struct IdleTimer {
    /// None for never.
    limit: Option<Duration>,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimer {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        let limit = limit.filter(|limit| !limit.is_zero() && *limit < FOR_EVER);
        let since = Instant::now();
        Self {
            limit,
            since,
            timer: Box::pin(sleep_until(since + limit.unwrap_or(FOR_EVER))),
        }
    }

    /// A cell has ended.
    pub(super) fn restart(&mut self) {
        if self.limit.is_some() {
            self.since = Instant::now();
        }
    }

    /// Waits until no cell has ended for so long.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn due(&mut self) -> Duration {
        let Some(limit) = self.limit else {
            return pending().await;
        };
        loop {
            self.timer.as_mut().await;
            let due = self.since + limit;
            if Instant::now() >= due {
                return limit;
            }
            self.timer.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_due_so_long_after_the_last_cell() {
        let limit = Duration::from_secs(1_800);
        let mut timer = IdleTimer::new(Some(limit));
        let began = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1_700)).await;
            timer.restart();
        }
        assert_eq!(timer.due().await, limit);
        let after = began.elapsed();
        let expected = Duration::from_secs(3 * 1_700 + 1_800);
        assert!(
            after >= expected && after < expected + Duration::from_secs(1),
            "{after:?}"
        );
        // Still so, until a cell ends.
        assert_eq!(timer.due().await, limit);
        timer.restart();
        let early = tokio::time::timeout(limit / 2, timer.due()).await;
        assert!(early.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn never_is_never() {
        for limit in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
            let mut timer = IdleTimer::new(limit);
            timer.restart();
            let year = Duration::from_secs(366 * 86_400);
            let waiting = tokio::time::timeout(year, timer.due());
            assert!(waiting.await.is_err(), "{limit:?}");
        }
    }
}
