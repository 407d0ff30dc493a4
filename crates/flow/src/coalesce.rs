//! Many small calls made at about the same time, answered by one call.

use futures::future::BoxFuture;
use std::fmt;
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
        let (sender, mut receiver) = mpsc::channel::<Asked<Q, A>>(most);
        tokio::spawn(async move {
            let mut gathered = Vec::new();
            while receiver.recv_many(&mut gathered, most).await > 0 {
                let (questions, askers): (Vec<Q>, Vec<_>) = gathered.drain(..).unzip();
                for (answer, asker) in answer(questions).await.into_iter().zip(askers) {
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
}
