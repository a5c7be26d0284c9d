//! Keeps a door where clients look for it: whatever removes its socket, it comes back.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::door::{Accepting, Served};
use super::published::Published;
use super::whereabouts::Question;
use crate::process::{PathWatch, in_a_thread};

/// Between something that happens to the socket and the look at it: what removes a whole folder
/// should not find it full again in the middle.
const SETTLE: Duration = Duration::from_millis(50);
/// The longest pause: who removes the socket without end makes no more work than this.
const MOST_PAUSE: Duration = Duration::from_secs(1);
/// After so long without a removal the next one counts as the first.
const CALM: Duration = Duration::from_secs(10);

/// What can be found.
#[derive(Debug)]
struct Standing {
    published: Arc<Published>,
    accepting: Accepting,
}

/// Where a door is, from when it opens until it is hidden.
#[derive(Debug)]
pub(super) struct Place {
    served: Served,
    /// Where clients look, best first.
    folders: Vec<PathBuf>,
    /// `None` once it is hidden.
    standing: Mutex<Option<Standing>>,
}

impl Place {
    /// A place that has just been published.
    pub(super) fn new(
        served: Served,
        folders: Vec<PathBuf>,
        published: Published,
        accepting: Accepting,
    ) -> Arc<Self> {
        served.is_at(Some(published.path().to_owned()));
        Arc::new(Self {
            served,
            folders,
            standing: Mutex::new(Some(Standing {
                published: Arc::new(published),
                accepting,
            })),
        })
    }

    fn standing(&self) -> MutexGuard<'_, Option<Standing>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is published now; nothing once it is hidden.
    pub(super) fn published(&self) -> Option<Arc<Published>> {
        let standing = self.standing();
        standing.as_ref().map(|it| Arc::clone(&it.published))
    }

    /// Takes the name away for good. Who came before is still served as long as what is returned
    /// lives.
    pub(super) fn hide(&self) -> Option<(Arc<Published>, Accepting)> {
        let standing = self.standing().take()?;
        self.served.is_at(None);
        standing.published.hide();
        Some((standing.published, standing.accepting))
    }

    /// Whether it can be found; if not, it is published again, as soon as that may be. True if that was
    /// done.
    async fn look(&self, pace: &mut Pace) -> Result<(PathBuf, bool), String> {
        let ending = || "the server is ending".to_owned();
        let published = self.published().ok_or_else(ending)?;
        let path = published.path().to_owned();
        let looked_at = Arc::clone(&published);
        let stands = in_a_thread(move || looked_at.stands()).await;
        if stands.map_err(|error| error.to_string())? {
            return Ok((path, false));
        }
        pace.wait().await;
        let folders = self.folders.clone();
        let making = in_a_thread(move || {
            if published.stands() {
                return Ok(None);
            }
            published.again(&folders).map(Some)
        });
        let made = making.await.map_err(|error| error.to_string())?;
        let Some((published, listener)) = made.map_err(|error| error.to_string())? else {
            return Ok((path, false));
        };
        let accepting = self.served.accept(listener).map_err(|it| it.to_string())?;
        let path = published.path().to_owned();
        let mut standing = self.standing();
        // If it was hidden meanwhile: dropping it takes it away again.
        let before = standing.as_mut().ok_or_else(ending)?;
        *before = Standing {
            published: Arc::new(published),
            accepting,
        };
        self.served.is_at(Some(path.clone()));
        drop(standing);
        pace.made();
        tracing::warn!(door = %path.display(), "the socket was gone and is there again");
        Ok((path, true))
    }

    /// Looks after it whenever something happens to it, or somebody asks; ends when it is hidden.
    pub(super) async fn keep(self: Arc<Self>, mut questions: mpsc::Receiver<Question>) {
        let mut pace = Pace::default();
        let mut asked: Vec<Question> = Vec::new();
        let mut trouble = String::new();
        loop {
            let Some(path) = self.published().map(|it| it.path().to_owned()) else {
                return;
            };
            // Before the look, so that nothing falls between the two.
            let watch = PathWatch::on(&path);
            let found = self.look(&mut pace).await;
            while let Ok(question) = questions.try_recv() {
                asked.push(question);
            }
            for question in asked.drain(..) {
                // It may have gone away.
                drop(question.send(found.clone().map(|(path, _)| path)));
            }
            match found {
                // What was watched may be gone.
                Ok((_, true)) => continue,
                Ok((_, false)) => trouble.clear(),
                Err(reason) => {
                    if reason != trouble {
                        tracing::warn!(reason, "the door cannot be found by clients");
                    }
                    trouble = reason;
                }
            }
            tokio::select! {
                () = happening(watch) => sleep(SETTLE).await,
                // Of a program nobody asks; what happens is still seen.
                Some(question) = questions.recv() => asked.push(question),
            }
        }
    }
}

async fn happening(watch: std::io::Result<PathWatch>) {
    let watched = match watch {
        Ok(watch) => watch.changed().await,
        Err(error) => Err(error),
    };
    if let Err(error) = watched {
        tracing::debug!(%error, "nothing tells when the socket is removed; clients that ask do");
        std::future::pending::<()>().await;
    }
}

/// How soon it may be published again.
#[derive(Debug)]
struct Pace {
    pause: Duration,
    last: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            pause: SETTLE,
            last: None,
        }
    }
}

impl Pace {
    /// It was published again: the next time may take longer.
    fn made(&mut self) {
        let is_calm = self.last.is_none_or(|last| last.elapsed() > CALM);
        let pause = if is_calm { SETTLE } else { self.pause };
        self.pause = (pause * 2).min(MOST_PAUSE);
        self.last = Some(Instant::now());
    }

    /// Waits until it may be.
    async fn wait(&self) {
        if let Some(last) = self.last {
            sleep_until(last + self.pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_removes_it_without_end_makes_little_work() {
        let mut pace = Pace::default();
        let began = Instant::now();
        let mut times = Vec::new();
        for _ in 0..8 {
            pace.wait().await;
            pace.made();
            times.push(began.elapsed().as_millis());
        }
        assert_eq!(times, [0, 100, 300, 700, 1500, 2500, 3500, 4500]);
        tokio::time::advance(CALM * 2).await;
        let began = Instant::now();
        pace.wait().await;
        pace.made();
        pace.wait().await;
        assert_eq!(began.elapsed(), SETTLE * 2);
    }
}
