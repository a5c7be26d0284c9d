//! Front ends that are just connecting: ZeroMQ has them ask over one connection while what they subscribe
//! to is still on its way over another, and what is published before that they would never see.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long one that has connected may take to subscribe, and the longest that a request waits for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Connections that may subscribe yet.
#[derive(Debug, Default)]
pub(super) struct Coming(watch::Sender<usize>);

/// One of them, until it is dropped or its time is up.
#[derive(Debug)]
pub(super) struct Arrival(#[expect(dead_code, reason = "its drop is the event")] DropGuard);

impl Coming {
    /// One has connected. To be called within a runtime of tokio.
    pub(super) fn enter(self: &Arc<Self>) -> Arrival {
        self.0.send_modify(|count| *count += 1);
        let (coming, come) = (Arc::clone(self), CancellationToken::new());
        let arrival = Arrival(come.clone().drop_guard());
        tokio::spawn(async move {
            tokio::select! {
                () = come.cancelled() => {}
                () = sleep(PATIENCE) => {}
            }
            coming.0.send_modify(|count| *count -= 1);
        });
        arrival
    }

    /// Waits for those that are coming, if there are any.
    ///
    /// # Cancel safety
    ///
    /// May be dropped.
    pub(super) async fn settled(&self) {
        let mut count = self.0.subscribe();
        // It cannot fail: the sender is here.
        drop(timeout(PATIENCE, count.wait_for(|count| *count == 0)).await);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_coming_is_waited_for_but_not_long() {
        let coming = Arc::<Coming>::default();
        let began = Instant::now();
        coming.settled().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let arrival = coming.enter();
        let (waiting, ()) = tokio::join!(
            async {
                coming.settled().await;
                began.elapsed()
            },
            async {
                sleep(Duration::from_millis(30)).await;
                drop(arrival);
            }
        );
        assert!((30..32).contains(&waiting.as_millis()), "{waiting:?}");
        // One that never subscribes is waited for once.
        let began = Instant::now();
        let _silent = coming.enter();
        coming.settled().await;
        sleep(Duration::from_millis(1)).await;
        coming.settled().await;
        assert!(began.elapsed() < PATIENCE * 2, "{:?}", began.elapsed());
    }
}
