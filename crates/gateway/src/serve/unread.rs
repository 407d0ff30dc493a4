//! How much memory answers may take that their clients have not read yet, all connections together.

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

/// Answers below this size are not counted: the number of connections bounds what they take.
const SMALL: u64 = 16 << 10;

/// In the extensions of an answer: its bytes are kept once for all who ask, so that one more costs nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptAnyway;

/// What answers take until their clients have read them. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    held: Arc<AtomicU64>,
    most: u64,
}

/// A part of what is held. Dropping it gives it back.
#[derive(Debug)]
struct Held {
    bytes: u64,
    all: Arc<AtomicU64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Unread {
    pub(super) fn new(most: u64) -> Self {
        Self { held: Arc::default(), most }
    }

    /// The answer, counted until it is written; none if clients have not read as much as may wait. One answer is let
    /// through whatever its size if there is room at all, so that there is none which nobody could ever read.
    pub(super) fn admit(&self, answer: Response) -> Option<Response> {
        let size = answer.body().size_hint().lower();
        if size < SMALL || answer.extensions().get::<KeptAnyway>().is_some() {
            return Some(answer);
        }
        let take = |held: u64| (held < self.most).then(|| held.saturating_add(size));
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let held = Held { bytes: size, all: self.held.clone() };
        Some(answer.map(|body| Body::new(Counted { body, held: Some(held) })))
    }
}

/// A body whose bytes are counted for as long as somebody has them.
struct Counted {
    body: Body,
    held: Option<Held>,
}

/// Bytes that are counted.
struct CountedBytes {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // Answers are one piece. It is counted until it is written, which is when its bytes are dropped.
        let counted = |frame: Frame<Bytes>| match self.held.take() {
            Some(held) => frame.map_data(|bytes| Bytes::from_owner(CountedBytes { bytes, _held: held })),
            None => frame,
        };
        Poll::Ready(frame.map(|frame| frame.map(counted)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_counts_until_its_bytes_are_gone() {
        let unread = Unread::new(100 << 10);
        let answer = || Response::new(Body::from(vec![b'x'; 60 << 10]));
        let bytes =
            async |answer: Response| axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let first = unread.admit(answer()).unwrap();
        let second = bytes(unread.admit(answer()).unwrap()).await;
        assert_eq!(second.len(), 60 << 10);
        assert!(unread.admit(answer()).is_none());
        assert!(unread.admit(Response::new(Body::from("small"))).is_some());
        let mut kept = answer();
        kept.extensions_mut().insert(KeptAnyway);
        assert!(unread.admit(kept).is_some());
        drop(first);
        assert!(unread.admit(answer()).is_some(), "nobody reads the first one any more");
        drop(second);
        assert_eq!(unread.held.load(Ordering::Relaxed), 0);
        assert!(unread.admit(Response::new(Body::from(vec![0; 1 << 20]))).is_some(), "one may be large");
    }
}
