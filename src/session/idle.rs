//! When a kernel has had nothing to do for too long.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::presence::Present;

/// Longer than anybody waits; what is beyond it is never.
const FOR_EVER: Duration = Duration::from_secs(10 * 366 * 86_400);

/// The time since the last cell, and since the last client went. The timer is set anew when it fires, not at each cell: so a cell
/// costs it a look at the clock.
#[derive(Debug)]
pub(super) struct IdleTimer {
    /// None for never.
    limit: Option<Duration>,
    since: Instant,
    timer: Pin<Box<Sleep>>,
    clients: watch::Receiver<Present>,
}

impl IdleTimer {
    pub(super) fn new(limit: Option<Duration>, clients: watch::Receiver<Present>) -> Self {
        let limit = as_it_counts(limit);
        let since = Instant::now();
        Self {
            limit,
            since,
            timer: Box::pin(sleep_until(since + limit.unwrap_or(FOR_EVER))),
            clients,
        }
    }

    /// A cell has ended.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// From now on the limit is this one.
    pub(super) fn limit(&mut self, limit: Option<Duration>) {
        let limit = as_it_counts(limit);
        if limit != self.limit {
            self.limit = limit;
            let due = self.since + limit.unwrap_or(FOR_EVER);
            self.timer.as_mut().reset(due);
        }
    }

    /// Waits until for so long no cell has ended and no client was connected.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again.
    pub(super) async fn due(&mut self) -> Duration {
        let Some(limit) = self.limit else {
            return pending().await;
        };
        loop {
            let nobody = self.clients.wait_for(|present| present.clients == 0).await;
            let left_at = nobody.ok().and_then(|present| present.left_at);
            tokio::select! {
                biased;
                // Without a session there is nobody who could come.
                Ok(()) = self.clients.changed() => continue,
                () = self.timer.as_mut() => {}
            }
            let due = left_at.map_or(self.since, |left_at| left_at.max(self.since)) + limit;
            if Instant::now() >= due {
                return limit;
            }
            self.timer.as_mut().reset(due);
        }
    }
}

fn as_it_counts(limit: Option<Duration>) -> Option<Duration> {
    limit.filter(|limit| !limit.is_zero() && *limit < FOR_EVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::presence::Presence;

    #[tokio::test(start_paused = true)]
    async fn it_is_due_so_long_after_the_last_cell() {
        let limit = Duration::from_secs(1_800);
        let mut timer = IdleTimer::new(Some(limit), Presence::new().watch());
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
    async fn it_is_not_due_while_somebody_is_there_nor_so_long_after_the_last_has_gone() {
        let limit = Duration::from_secs(100);
        let presence = Presence::new();
        let mut timer = IdleTimer::new(Some(limit), presence.watch());
        let first = presence.enter();
        let second = presence.enter();
        let year = 366 * 86_400 * Duration::from_secs(1);
        assert!(tokio::time::timeout(year, timer.due()).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(year, timer.due()).await.is_err());
        timer.restart();
        let began = Instant::now();
        tokio::time::sleep(limit / 2).await;
        drop(second);
        // Somebody looks in while it is waited for.
        let looks_in = async {
            tokio::time::sleep(limit / 4).await;
            drop(presence.enter());
        };
        tokio::join!(timer.due(), looks_in);
        let after = began.elapsed();
        let expected = limit / 2 + limit / 4 + limit;
        assert!(
            after >= expected && after < expected + Duration::from_secs(1),
            "{after:?}"
        );
        // The end of a cell counts if it is later.
        let cell = presence.enter();
        drop(cell);
        tokio::time::sleep(limit / 2).await;
        timer.restart();
        let began = Instant::now();
        timer.due().await;
        assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn another_limit_counts_from_the_last_cell_on() {
        let seconds = Duration::from_secs;
        let mut timer = IdleTimer::new(None, Presence::new().watch());
        tokio::time::sleep(seconds(50)).await;
        timer.restart();
        tokio::time::sleep(seconds(20)).await;
        timer.limit(Some(seconds(100)));
        let began = Instant::now();
        assert_eq!(timer.due().await, seconds(100));
        let after = began.elapsed();
        assert!(after >= seconds(80) && after < seconds(81), "{after:?}");
        timer.restart();
        timer.limit(Some(seconds(10)));
        let began = Instant::now();
        assert_eq!(timer.due().await, seconds(10));
        assert!(began.elapsed() < seconds(11));
        timer.restart();
        timer.limit(Some(Duration::ZERO));
        let year = seconds(366 * 86_400);
        assert!(tokio::time::timeout(year, timer.due()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn never_is_never() {
        for limit in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
            let mut timer = IdleTimer::new(limit, Presence::new().watch());
            timer.restart();
            let year = Duration::from_secs(366 * 86_400);
            let waiting = tokio::time::timeout(year, timer.due());
            assert!(waiting.await.is_err(), "{limit:?}");
        }
    }
}
