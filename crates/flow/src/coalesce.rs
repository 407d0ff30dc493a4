//! Many small calls made at about the same time, answered by one call.

use futures::{FutureExt, future::BoxFuture};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tokio::sync::{mpsc, oneshot};

type Asked<Q, A> = (Q, oneshot::Sender<A>);

/// Gathers single calls that are made while another is under way, and makes one call of them.
///
/// Nobody waits for company: who comes alone is served alone.
pub struct Coalesce<Q, A>(mpsc::Sender<Asked<Q, A>>);

impl<Q, A> fmt::Debug for Coalesce<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coalesce")
    }
}

impl<Q: Send + 'static, A: Send + 'static> Coalesce<Q, A> {
    /// Answers up to `most` calls at a time by this one. It must give one answer per question, in order. Runs until
    /// this is dropped.
    pub fn new(most: usize, answer: impl Fn(Vec<Q>) -> BoxFuture<'static, Vec<A>> + Send + 'static) -> Self {
        let most = most.max(1);
        let (sender, mut receiver) = mpsc::channel::<Asked<Q, A>>(most);
        tokio::spawn(async move {
            let mut gathered = Vec::new();
            while receiver.recv_many(&mut gathered, most).await > 0 {
                let (questions, askers): (Vec<Q>, Vec<_>) = gathered.drain(..).unzip();
                // Whoever asked learns of a panic by getting no answer. Later askers may have more luck.
                let Ok(answering) = catch_unwind(AssertUnwindSafe(|| answer(questions))) else { continue };
                let answers = AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_default();
                for (answer, asker) in answers.into_iter().zip(askers) {
                    // Who does not wait any more needs no answer.
                    let _ = asker.send(answer);
                }
            }
        });
        Self(sender)
    }

    /// Asks; `None` if the answering call failed to answer.
    pub async fn ask(&self, question: Q) -> Option<A> {
        let (sender, receiver) = oneshot::channel();
        self.0.send((question, sender)).await.ok()?;
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
    async fn calls_made_meanwhile_are_gathered_and_each_gets_its_own_answer() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let double = Coalesce::new(100, move |numbers: Vec<u32>| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::task::yield_now().await;
                numbers.into_iter().map(|number| number * 2).collect()
            })
        });
        let answers = futures::future::join_all((0..100).map(|number| double.ask(number))).await;
        assert_eq!(answers, (0..100).map(|number| Some(number * 2)).collect::<Vec<_>>());
        assert!(calls.load(Ordering::SeqCst) < 20, "{calls:?} calls for 100 questions");
    }

    #[tokio::test]
    async fn a_missing_answer_is_told() {
        let silent: Coalesce<u32, u32> = Coalesce::new(8, |_| Box::pin(async { Vec::new() }));
        assert_eq!(silent.ask(1).await, None);
    }

    #[tokio::test]
    async fn a_panic_ends_one_call_and_not_the_next() {
        let moody = Coalesce::new(8, |numbers: Vec<u32>| {
            assert!(!numbers.contains(&13), "not this one");
            Box::pin(async move { numbers })
        });
        assert_eq!(moody.ask(13).await, None);
        assert_eq!(moody.ask(1).await, Some(1));
    }

    #[tokio::test]
    async fn who_stops_waiting_is_in_nobodys_way() {
        let echo = Coalesce::new(1, |numbers: Vec<u32>| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                numbers
            })
        });
        for number in 0..10 {
            let asking = echo.ask(number);
            tokio::pin!(asking);
            assert!(asking.as_mut().now_or_never().is_none());
        }
        assert_eq!(echo.ask(99).await, Some(99));
    }
}
