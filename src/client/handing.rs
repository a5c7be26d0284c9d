//! A body that can be taken back until it goes out: so that what was asked of a manager that could not
//! be reached was surely not begun.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

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

    /// A body that counts as handed over as soon as it is asked for, and is not given once it was taken
    /// back.
    pub(super) fn body(&self, bytes: Bytes) -> Held {
        Held {
            bytes: Some(bytes),
            handing: self.clone(),
        }
    }
}

/// A body that can be taken back. Then it never comes: its connection is to be given up.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Option<Bytes>,
    handing: Handing,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_some() && !self.handing.turn(HELD, HANDED_OVER) {
            return Poll::Pending;
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
    async fn a_body_is_handed_over_once_it_is_asked_for_and_not_after_it_was_taken_back() {
        let handing = Handing::default();
        let mut body = handing.body(Bytes::from_static(b"x"));
        assert_eq!(body.size_hint().exact(), Some(1));
        assert!(handing.is_held());
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "x");
        assert!(body.is_end_stream() && !handing.revoke());
        handing.came_back();
        let mut body = handing.body(Bytes::from_static(b"x"));
        assert!(handing.revoke() && handing.revoke());
        assert!(futures_util::FutureExt::now_or_never(body.frame()).is_none());
        handing.came_back();
        assert!(handing.revoke());
    }
}
