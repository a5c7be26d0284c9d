//! A body that goes out only when the other side reads it: so that what was asked of a manager that
//! does not run was surely not begun.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

const HELD: u8 = 0;
const HANDED_OVER: u8 = 1;
const REVOKED: u8 = 2;

/// Whether a cell was handed over to a manager; it can be taken back until then.
#[derive(Debug, Clone, Default)]
pub struct Handing(Arc<AtomicU8>);

impl Handing {
    /// Takes it back: true if no manager has it, nor will have it.
    pub fn revoke(&self) -> bool {
        let held = self.turn(HELD, REVOKED);
        held || self.0.load(Ordering::Acquire) == REVOKED
    }

    /// Whether no manager has it.
    pub(super) fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire) == HELD
    }

    /// The manager has said that it has begun nothing.
    pub(super) fn came_back(&self) {
        self.turn(HANDED_OVER, HELD);
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        let turned = self
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        turned.is_ok()
    }

    /// A body that is held back, and what lets it go.
    pub(super) fn body(&self, bytes: Bytes) -> (Held, Wanted) {
        let (give, given) = oneshot::channel();
        let held = Held {
            bytes: Some(bytes),
            given: Some(given),
            handing: self.clone(),
        };
        (held, Wanted(Mutex::new(Some(give))))
    }
}

/// Lets a body go.
#[derive(Debug)]
pub(super) struct Wanted(Mutex<Option<oneshot::Sender<()>>>);

impl Wanted {
    pub(super) fn give(&self) {
        let give = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(give) = give {
            // The request may be gone.
            give.send(()).ok();
        }
    }
}

/// A body that is held back. It may stay so for ever: then the answer comes without it.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Option<Bytes>,
    given: Option<oneshot::Receiver<()>>,
    handing: Handing,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(given) = &mut self.given {
            match Pin::new(given).poll(context) {
                Poll::Ready(Ok(())) if self.handing.turn(HELD, HANDED_OVER) => self.given = None,
                Poll::Ready(Ok(()) | Err(_)) | Poll::Pending => return Poll::Pending,
            }
        }
        let bytes = self.bytes.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_goes_out_once_it_is_wanted_and_not_after_it_was_taken_back() {
        let handing = Handing::default();
        let (mut body, wanted) = handing.body(Bytes::from_static(b"x"));
        assert_eq!(body.size_hint().exact(), Some(1));
        assert!(futures_util::FutureExt::now_or_never(body.frame()).is_none());
        wanted.give();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "x");
        assert!(body.is_end_stream() && !handing.revoke());
        handing.came_back();
        let (mut body, wanted) = handing.body(Bytes::from_static(b"x"));
        assert!(handing.revoke() && handing.revoke());
        wanted.give();
        assert!(futures_util::FutureExt::now_or_never(body.frame()).is_none());
        handing.came_back();
        assert!(handing.revoke());
    }
}
