//! Coalescing: concurrent calls are answered by one batched call.

use futures::{FutureExt, future::BoxFuture};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tokio::sync::{mpsc, oneshot};

type Call<Q, A> = (Q, oneshot::Sender<A>);

/// Coalescer of single calls: those made while a batch is under way form the next batch. A lone call is not delayed.
pub struct Coalescer<Q, A>(mpsc::Sender<Call<Q, A>>);

impl<Q, A> fmt::Debug for Coalescer<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coalescer")
    }
}

impl<Q: Send + 'static, A: Send + 'static> Coalescer<Q, A> {
    /// Coalescer that answers up to `max` calls by one call of `batch`, which must return one answer per request, in
    /// order. Its task ends when the coalescer is dropped.
    pub fn new(max: usize, batch: impl Fn(Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + 'static) -> Self {
        let max = max.max(1);
        let (sender, mut receiver) = mpsc::channel::<Call<Q, A>>(max);
        tokio::spawn(async move {
            let mut calls = Vec::new();
            while receiver.recv_many(&mut calls, max).await > 0 {
                let (requests, callers): (Vec<Q>, Vec<_>) = calls.drain(..).unzip();
                // After a panic the callers of this batch get no answer; later batches go on.
                let Ok(answering) = catch_unwind(AssertUnwindSafe(|| batch(requests))) else { continue };
                let answers = AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_default();
                for (answer, caller) in answers.into_iter().zip(callers) {
                    // A cancelled caller needs no answer.
                    let _ = caller.send(answer);
                }
            }
        });
        Self(sender)
    }

    /// Makes a call; `None` if its batch returned no answer.
    pub async fn call(&self, request: Q) -> Option<A> {
        let (sender, receiver) = oneshot::channel();
        self.0.send((request, sender)).await.ok()?;
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[tokio::test]
    async fn concurrent_calls_are_batched_and_each_gets_its_own_answer() {
        let batches = Arc::new(AtomicUsize::new(0));
        let counted = batches.clone();
        let double = Coalescer::new(100, move |numbers: Vec<u32>| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::task::yield_now().await;
                numbers.into_iter().map(|number| number * 2).collect()
            })
        });
        let answers = futures::future::join_all((0..100).map(|number| double.call(number))).await;
        assert_eq!(answers, (0..100).map(|number| Some(number * 2)).collect::<Vec<_>>());
        assert!(batches.load(Ordering::SeqCst) < 20, "{batches:?} batches for 100 calls");
    }

    #[tokio::test]
    async fn a_missing_answer_is_none() {
        let silent: Coalescer<u32, u32> = Coalescer::new(8, |_| Box::pin(async { Vec::new() }));
        assert_eq!(silent.call(1).await, None);
    }

    #[tokio::test]
    async fn a_panic_fails_one_batch_and_not_the_next() {
        let panicking = Coalescer::new(8, |numbers: Vec<u32>| {
            assert!(!numbers.contains(&13), "not this one");
            Box::pin(async move { numbers })
        });
        assert_eq!(panicking.call(13).await, None);
        assert_eq!(panicking.call(1).await, Some(1));
    }

    #[tokio::test]
    async fn cancelled_calls_do_not_block_later_ones() {
        let echo = Coalescer::new(1, |numbers: Vec<u32>| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                numbers
            })
        });
        for number in 0..10 {
            let call = echo.call(number);
            tokio::pin!(call);
            assert!(call.as_mut().now_or_never().is_none());
        }
        assert_eq!(echo.call(99).await, Some(99));
    }
}
