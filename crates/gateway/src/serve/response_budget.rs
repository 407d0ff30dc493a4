//! Memory limit of responses that their clients have not read yet, over all connections.

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

/// Minimum size of a counted response; the number of connections bounds the smaller ones.
const MIN_COUNTED: u64 = 16 << 10;

/// Response extension: the body is shared by all responses and needs no memory of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticBody;

/// Memory of unread responses. Clones share their state.
#[derive(Debug, Clone)]
pub(super) struct ResponseBudget {
    used: Arc<AtomicU64>,
    max: u64,
}

/// Reserved memory, released on drop.
#[derive(Debug)]
struct Reservation {
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ResponseBudget {
    pub(super) fn new(max: u64) -> Self {
        Self { used: Arc::default(), max }
    }

    /// Counts a response until it is written; `None` if the budget is used up. A response may exceed the rest of the budget, so
    /// that even one larger than the budget can be sent.
    pub(super) fn admit(&self, response: Response) -> Option<Response> {
        let size = response.body().size_hint().lower();
        if size < MIN_COUNTED || response.extensions().get::<StaticBody>().is_some() {
            return Some(response);
        }
        let reserve = |used: u64| (used < self.max).then(|| used.saturating_add(size));
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).ok()?;
        let reservation = Reservation { bytes: size, used: self.used.clone() };
        Some(response.map(|body| Body::new(CountedBody { body, reservation: Some(reservation) })))
    }
}

/// Body with a reservation.
struct CountedBody {
    body: Body,
    reservation: Option<Reservation>,
}

/// Bytes with a reservation.
struct CountedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // Responses have one frame, whose bytes are dropped when they are written.
        let counted = |frame: Frame<Bytes>| match self.reservation.take() {
            Some(reservation) => {
                frame.map_data(|bytes| Bytes::from_owner(CountedBytes { bytes, _reservation: reservation }))
            }
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
    async fn a_response_counts_until_its_bytes_are_dropped() {
        let budget = ResponseBudget::new(100 << 10);
        let response = || Response::new(Body::from(vec![b'x'; 60 << 10]));
        let bytes =
            async |response: Response| axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let first = budget.admit(response()).unwrap();
        let second = bytes(budget.admit(response()).unwrap()).await;
        assert_eq!(second.len(), 60 << 10);
        assert!(budget.admit(response()).is_none());
        assert!(budget.admit(Response::new(Body::from("small"))).is_some());
        let mut shared = response();
        shared.extensions_mut().insert(StaticBody);
        assert!(budget.admit(shared).is_some());
        drop(first);
        assert!(budget.admit(response()).is_some(), "the first response is dropped");
        drop(second);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert!(
            budget.admit(Response::new(Body::from(vec![0; 1 << 20]))).is_some(),
            "larger than the budget"
        );
    }
}
