//! What cases ask and expect of deliveries, dead letters and depths.

use super::trial::{STEP, Trial};
use crate::{
    Aspect, BrokerError, DeadFilter, DeadLetter, Delivery, Depth, QueueName, Receipt, SettleError, Settled,
    Timestamp, Verdict,
};
use std::time::Duration;

/// How many are in each state: ready, in flight, delayed, dead.
pub(super) type Counts = (u64, u64, u64, u64);

pub(super) fn retry(after: Duration, error: &str) -> Verdict {
    Verdict::Retry { after, error: error.into() }
}

pub(super) fn dead(reason: &str) -> Verdict {
    Verdict::Dead { reason: reason.into() }
}

impl Trial<'_> {
    /// Settles one delivery and expects the verdict to be taken.
    pub(super) async fn settle(&self, delivery: &Delivery, verdict: Verdict) -> Settled {
        match self.verdict(&delivery.receipt, verdict.clone()).await {
            Ok(settled) => settled,
            Err(error) => panic!("{verdict:?} within the lease must be taken, the answer was: {error}"),
        }
    }

    pub(super) async fn done(&self, delivery: &Delivery) {
        assert_eq!(self.settle(delivery, Verdict::Done).await, Settled::Done, "the answer to done");
    }

    /// Retries and expects that the message gets another attempt.
    pub(super) async fn retry(&self, delivery: &Delivery, after: Duration, error: &str) {
        let settled = self.settle(delivery, retry(after, error)).await;
        assert_eq!(settled, Settled::Retrying { attempt: delivery.attempt + 1 }, "the answer to a retry");
    }

    pub(super) async fn requeue(&self, delivery: &Delivery) {
        assert_eq!(
            self.settle(delivery, Verdict::Requeue).await,
            Settled::Requeued,
            "the answer to a requeue"
        );
    }

    pub(super) async fn defer(&self, delivery: &Delivery, until: Timestamp) {
        let settled = self.settle(delivery, Verdict::Defer { until }).await;
        assert_eq!(settled, Settled::Deferred, "the answer to a deferral");
    }

    pub(super) async fn kill(&self, delivery: &Delivery, reason: &str) {
        assert_eq!(self.settle(delivery, dead(reason)).await, Settled::Dead, "the answer to dead");
    }

    async fn verdict(&self, receipt: &Receipt, verdict: Verdict) -> Result<Settled, SettleError> {
        let mut answers = self.broker().settle(vec![(receipt.clone(), verdict)]).await;
        assert_eq!(answers.len(), 1, "one verdict has one answer");
        answers.remove(0)
    }

    /// Expects that a verdict comes too late.
    pub(super) async fn fenced(&self, receipt: &Receipt, verdict: Verdict, because: &str) {
        let answer = self.verdict(receipt, verdict.clone()).await;
        let fenced = Err(SettleError::Fenced { queue: receipt.queue.clone() });
        assert_eq!(answer, fenced, "{verdict:?} must be fenced, since {because}");
    }

    /// Publishes a message and makes it a dead letter.
    pub(super) async fn bury(&mut self, queue: &QueueName, body: &str, reason: &str) {
        self.send(queue, body).await;
        let delivery = self.take(queue).await;
        self.kill(&delivery, reason).await;
    }

    /// The dead letters that match, from all pages.
    pub(super) async fn dead_matching(&self, queue: &QueueName, filter: &DeadFilter) -> Vec<DeadLetter> {
        let mut letters = Vec::new();
        let mut after = None;
        loop {
            let page = match self.broker().dead_letters(queue, filter, after.as_ref(), 7).await {
                Ok(page) => page,
                Err(error) => panic!("listing dead letters of `{queue}` must work, the answer was: {error}"),
            };
            assert!(page.letters.len() <= 7, "a page of 7 at most has {} letters", page.letters.len());
            letters.extend(page.letters);
            let Some(next) = page.next else { return letters };
            assert_ne!(Some(&next), after.as_ref(), "paging must go on, not stay at {next}");
            after = Some(next);
        }
    }

    pub(super) async fn dead_letters(&self, queue: &QueueName) -> Vec<DeadLetter> {
        self.dead_matching(queue, &DeadFilter::all()).await
    }

    /// The bodies of the dead letters, oldest first.
    pub(super) async fn dead_bodies(&self, queue: &QueueName) -> Vec<String> {
        bodies(&self.dead_letters(queue).await)
    }

    /// Waits until this many are dead. Looks at the queue meanwhile, since a broker may find out only
    /// when it would deliver; nothing may come of that.
    pub(super) async fn dead_by_itself(&mut self, queue: &QueueName, count: usize) -> Vec<DeadLetter> {
        let name = queue.clone();
        let beat = self.beat();
        self.until(&format!("{count} dead letters and no delivery"), |broker| {
            let name = name.clone();
            async move {
                let got = broker.receive(&name, 10, beat).await.map_err(|error| error.to_string())?;
                assert!(
                    got.is_empty(),
                    "`{name}` must deliver nothing more, its attempts are used up: {got:?}"
                );
                let page = broker.dead_letters(&name, &DeadFilter::all(), None, 100).await;
                let found = page.map_err(|error| error.to_string())?.letters.len();
                if found == count { Ok(()) } else { Err(format!("{found} dead letters")) }
            }
        })
        .await;
        self.dead_letters(queue).await
    }

    /// Expects these numbers, at once or within the lag that the broker states. Where the broker cannot
    /// tell depths, expects that it says so.
    pub(super) async fn depth_is(&mut self, queue: &QueueName, want: Counts, when: &str) {
        if !self.has(Aspect::Depth) {
            let depth = self.broker().depth(queue).await;
            let refused = matches!(depth, Err(BrokerError::Refused { aspect: Aspect::Depth, .. }));
            assert!(refused, "a broker without depths must refuse to tell one, the answer was {depth:?}");
            return;
        }
        let lag = self.guarantees().depth_lag;
        let start = self.now();
        loop {
            let depth = self.depth(queue).await;
            let found = (depth.ready, depth.in_flight, depth.delayed, depth.dead);
            if found == want {
                assert_eq!(depth.waiting(), want.0 + want.2, "what waits is ready or delayed");
                let waiting = self.broker().waiting(queue).await;
                let about =
                    waiting.as_ref().is_ok_and(|waiting| (want.0..=want.0 + want.2).contains(waiting));
                assert!(about, "{when}: what waits in `{queue}` is {waiting:?}, with a depth of {want:?}");
                return;
            }
            assert!(
                self.now().since(start) < lag,
                "{when}: (ready, in flight, delayed, dead) of `{queue}` must be {want:?} within {lag:?}, found {found:?}"
            );
            self.pass(STEP).await;
        }
    }

    pub(super) async fn depth(&self, queue: &QueueName) -> Depth {
        match self.broker().depth(queue).await {
            Ok(depth) => depth,
            Err(error) => panic!("the depth of `{queue}` must be told, the answer was: {error}"),
        }
    }
}

/// The bodies of these letters.
pub(super) fn bodies(letters: &[DeadLetter]) -> Vec<String> {
    letters.iter().map(|letter| String::from_utf8_lossy(&letter.message.body).into_owned()).collect()
}

/// Whatever order they came in.
pub(super) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// `m000` up to, not including, this many.
pub(super) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("m{i:03}")).collect()
}
