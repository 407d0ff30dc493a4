//! What cases ask and expect of deliveries, dead letters and depths.

use crate::prelude::*;

pub(super) fn retry(after: Duration, error: &str) -> Verdict {
    Verdict::Retry { after, error: error.into() }
}

pub(super) fn dead(reason: &str) -> Verdict {
    Verdict::Dead { reason: reason.into() }
}

/// One verdict of each kind; what waits does so until the time given.
pub(super) fn verdicts(now: Timestamp, wait: Duration) -> [Verdict; 5] {
    [
        Verdict::Done,
        retry(wait, "failed"),
        Verdict::Requeue,
        Verdict::Defer { until: now + wait },
        dead("hopeless"),
    ]
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

    pub(super) async fn all_done(&self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.done(delivery).await;
        }
    }

    /// Retries and expects that the message gets another attempt.
    pub(super) async fn retry(&self, delivery: &Delivery, after: Duration, error: &str) {
        let settled = self.settle(delivery, retry(after, error)).await;
        assert_eq!(settled, Settled::Retrying { attempt: delivery.attempt + 1 }, "the answer to a retry");
    }

    pub(super) async fn requeue(&self, delivery: &Delivery) {
        assert_eq!(self.settle(delivery, Verdict::Requeue).await, Settled::Requeued, "a requeue's answer");
    }

    pub(super) async fn defer(&self, delivery: &Delivery, until: Timestamp) {
        let settled = self.settle(delivery, Verdict::Defer { until }).await;
        assert_eq!(settled, Settled::Deferred, "the answer to a deferral");
    }

    /// Makes a delivery a dead letter.
    pub(super) async fn reject(&self, delivery: &Delivery, reason: &str) {
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
        assert_eq!(answer, Err(fenced(&receipt.queue)), "{verdict:?} must be fenced, since {because}");
    }

    /// Expects that neither a new lease nor a solo mark is to be had for this receipt.
    pub(super) async fn mark_is_fenced(&self, receipt: &Receipt, because: &str) {
        let error = fenced(&receipt.queue);
        let extended = self.broker().extend(std::slice::from_ref(receipt), LONG).await;
        assert_eq!(extended, [Err(error.clone())], "extending must be fenced, since {because}");
        let alone = self.broker().alone(receipt).await;
        assert_eq!(alone, Err(error), "marking it as running alone must be fenced, since {because}");
    }

    /// Publishes a message and makes it a dead letter.
    pub(super) async fn send_dead(&mut self, queue: &QueueName, body: &str, reason: &str) {
        let delivery = self.send_and_take(queue, body).await;
        self.reject(&delivery, reason).await;
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

    /// The only dead letter.
    pub(super) async fn dead_letter(&self, queue: &QueueName) -> DeadLetter {
        let mut letters = self.dead_letters(queue).await;
        assert_eq!(letters.len(), 1, "one dead letter in `{queue}`");
        letters.remove(0)
    }

    /// The bodies of the dead letters, oldest first.
    pub(super) async fn dead_bodies(&self, queue: &QueueName) -> Vec<String> {
        bodies(&self.dead_letters(queue).await)
    }

    pub(super) async fn replays(&self, queue: &QueueName, filter: &DeadFilter, count: u64) {
        let replayed = self.broker().replay(queue, filter).await;
        let replayed = replayed.unwrap_or_else(|error| panic!("replaying from `{queue}` must work: {error}"));
        assert_eq!((replayed.count, replayed.stopped), (count, None), "how many {filter:?} replayed");
    }

    /// Waits until one message is dead without a verdict. Polls the queue meanwhile, since a broker may find out only
    /// when it would deliver; nothing may come of that.
    pub(super) async fn dead_by_itself(&mut self, queue: &QueueName) -> DeadLetter {
        self.until("a dead letter and no delivery", async |t| {
            let got = t.poll(queue, 10).await;
            assert!(got.is_empty(), "`{queue}` must deliver nothing more, its message is dead: {got:?}");
            t.dead_letters(queue).await.pop().ok_or_else(|| "no dead letter".to_owned())
        })
        .await
    }

    /// Expects these numbers of ready, in flight, delayed and dead, at once or within the lag that the broker states. Where the broker cannot tell depths,
    /// expects that it says so.
    pub(super) async fn depth_is(&mut self, queue: &QueueName, want: (u64, u64, u64, u64), when: &str) {
        let what = format!("{when}: (ready, in flight, delayed, dead) of `{queue}` must be {want:?}");
        let counts = |depth: &Depth| (depth.ready, depth.in_flight, depth.delayed, depth.dead);
        let Some(depth) = self.depth_that(queue, &what, |depth| counts(depth) == want).await else { return };
        assert_eq!(depth.waiting(), want.0 + want.2, "what waits is ready or delayed");
        assert!(depth.waiting() > 0 || depth.oldest_age.is_none(), "nothing is old: {depth:?}");
        let waiting = self.broker().waiting(queue).await;
        let about = waiting.as_ref().is_ok_and(|waiting| (want.0..=want.0 + want.2).contains(waiting));
        assert!(about, "{when}: what waits in `{queue}` is {waiting:?}, with a depth of {want:?}");
    }

    /// A depth that is as it should be, at once or within the lag that the broker states; none where it refuses to tell.
    pub(super) async fn depth_that(
        &mut self,
        queue: &QueueName,
        what: &str,
        is_right: impl Fn(&Depth) -> bool,
    ) -> Option<Depth> {
        let (start, lag) = (self.now(), self.guarantees().depth_lag);
        loop {
            let depth = self.depth(queue).await?;
            if is_right(&depth) {
                return Some(depth);
            }
            assert!(self.now().since(start) < lag, "{what} within {lag:?}, found {depth:?}");
            self.pass(STEP).await;
        }
    }

    /// The depth, or none where the broker refuses to tell.
    pub(super) async fn depth(&self, queue: &QueueName) -> Option<Depth> {
        self.held(Aspect::Depth, self.broker().depth(queue).await)
    }
}

/// What the last failed attempt of a delivery said.
pub(super) fn error_of(delivery: &Delivery) -> Option<&str> {
    delivery.last_error.as_ref().map(|failure| failure.error.as_str())
}

/// What settling a delivery that was lost is answered with.
pub(super) fn fenced(queue: &QueueName) -> SettleError {
    SettleError::Fenced { queue: queue.clone() }
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
