//! Settling helpers, and assertions on deliveries, dead letters and depths.

use crate::prelude::*;

/// Page size for listing dead letters: smaller than most lists, and a divisor of one, so that a last page is full.
const PAGE: usize = 6;

pub(super) fn retry(after: Duration, error: &str) -> Verdict {
    Verdict::Retry { after, error: error.into() }
}

pub(super) fn dead(reason: &str) -> Verdict {
    Verdict::Dead { reason: reason.into() }
}

pub(super) fn defer(until: Timestamp) -> Verdict {
    Verdict::Defer { until }
}

/// One verdict of each kind; retries and deferrals are delayed by `delay`.
pub(super) fn verdicts(now: Timestamp, delay: Duration) -> [Verdict; 5] {
    [Verdict::Done, retry(delay, "failed"), Verdict::Requeue, defer(now + delay), dead("hopeless")]
}

impl Fixture<'_> {
    /// Settles a delivery. A retry must not be the last attempt.
    pub(super) async fn settle(&self, delivery: &Delivery, verdict: Verdict) {
        let expected = match verdict {
            Verdict::Done => SettleOutcome::Done,
            Verdict::Retry { .. } => SettleOutcome::Retrying { attempt: delivery.attempt + 1 },
            Verdict::Requeue => SettleOutcome::Requeued,
            Verdict::Defer { .. } => SettleOutcome::Deferred,
            Verdict::Dead { .. } => SettleOutcome::Dead,
        };
        self.settles_as(delivery, verdict, expected).await;
    }

    /// Settles a delivery and expects this outcome.
    pub(super) async fn settles_as(&self, delivery: &Delivery, verdict: Verdict, expected: SettleOutcome) {
        let outcome = self.verdict(&delivery.receipt, verdict.clone()).await;
        assert_eq!(outcome, Ok(expected), "the outcome of {verdict:?} within the lease");
    }

    pub(super) async fn done(&self, delivery: &Delivery) {
        self.settle(delivery, Verdict::Done).await;
    }

    pub(super) async fn all_done(&self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.done(delivery).await;
        }
    }

    async fn verdict(&self, receipt: &Receipt, verdict: Verdict) -> Result<SettleOutcome, SettleError> {
        let mut answers = self.broker().settle(vec![(receipt.clone(), verdict)]).await;
        assert_eq!(answers.len(), 1, "one verdict has one answer");
        answers.remove(0)
    }

    /// Asserts that a verdict is fenced.
    pub(super) async fn fenced(&self, receipt: &Receipt, verdict: Verdict, because: &str) {
        let answer = self.verdict(receipt, verdict.clone()).await;
        assert_eq!(answer, Err(fenced(&receipt.queue)), "{verdict:?} must be fenced, since {because}");
    }

    /// Asserts that extending the lease and marking as solo are fenced.
    pub(super) async fn extend_and_solo_are_fenced(&self, receipt: &Receipt, because: &str) {
        let error = fenced(&receipt.queue);
        let extended = self.broker().extend(std::slice::from_ref(receipt), LONG).await;
        assert_eq!(extended, [Err(error.clone())], "extending must be fenced, since {because}");
        let alone = self.broker().mark_solo(receipt).await;
        assert_eq!(alone, Err(error), "marking it as solo must be fenced, since {because}");
    }

    /// Publishes a message and rejects it.
    pub(super) async fn send_dead(&mut self, queue: &QueueName, body: &str, reason: &str) {
        let delivery = self.send_and_take(queue, body).await;
        self.settle(&delivery, dead(reason)).await;
    }

    /// All matching dead letters, over all pages.
    pub(super) async fn dead_matching(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Vec<DeadLetter> {
        let mut letters = Vec::new();
        let mut after = None;
        loop {
            let page = self.broker().dead_letters(queue, filter, after.as_ref(), PAGE).await;
            let page = page.unwrap_or_else(|error| panic!("listing dead letters of `{queue}`: {error}"));
            assert!(page.letters.len() <= PAGE, "a page of {PAGE} has {} letters", page.letters.len());
            letters.extend(page.letters);
            let Some(next) = page.next else { return letters };
            assert_ne!(Some(&next), after.as_ref(), "the pagination cursor advances");
            if *filter == DeadLetterFilter::all() {
                let last = letters.last().map(|letter| &letter.id);
                assert_eq!(Some(&next), last, "the next page begins after the last dead letter");
            }
            after = Some(next);
        }
    }

    pub(super) async fn dead_letters(&self, queue: &QueueName) -> Vec<DeadLetter> {
        self.dead_matching(queue, &DeadLetterFilter::all()).await
    }

    /// The only dead letter.
    pub(super) async fn dead_letter(&self, queue: &QueueName) -> DeadLetter {
        let mut letters = self.dead_letters(queue).await;
        assert_eq!(letters.len(), 1, "one dead letter in `{queue}`");
        letters.remove(0)
    }

    /// Bodies of the dead letters, oldest first.
    pub(super) async fn dead_bodies(&self, queue: &QueueName) -> Vec<String> {
        bodies(&self.dead_letters(queue).await)
    }

    pub(super) async fn assert_replays(&self, queue: &QueueName, filter: &DeadLetterFilter, count: u64) {
        let replayed = self.broker().replay(queue, filter).await;
        let replayed = replayed.unwrap_or_else(|error| panic!("replaying from `{queue}` must work: {error}"));
        assert_eq!((replayed.count, replayed.stopped), (count, None), "how many {filter:?} replayed");
    }

    /// Waits for a dead letter that no verdict made. Polls the queue meanwhile, since some brokers find out only when they
    /// would deliver; no delivery may come.
    pub(super) async fn await_dead_letter(&mut self, queue: &QueueName) -> DeadLetter {
        self.until("a dead letter and no delivery", async |t| {
            let got = t.poll(queue, 10).await;
            assert!(got.is_empty(), "`{queue}` must deliver nothing more, its message is dead: {got:?}");
            t.dead_letters(queue).await.pop().ok_or_else(|| "no dead letter".to_owned())
        })
        .await
    }

    /// Asserts the number of ready, in-flight, delayed and dead messages, within the stated lag.
    pub(super) async fn depth_is(&mut self, queue: &QueueName, want: (u64, u64, u64, u64), when: &str) {
        let what = format!("{when}: (ready, in flight, delayed, dead) of `{queue}` must be {want:?}");
        let counts = |depth: &Depth| (depth.ready, depth.in_flight, depth.delayed, depth.dead);
        let Some(depth) = self.depth_that(queue, &what, |depth| counts(depth) == want).await else { return };
        assert_eq!(depth.pending(), want.0 + want.2, "pending messages are ready or delayed");
        assert!(depth.pending() > 0 || depth.oldest_age.is_none(), "nothing is old: {depth:?}");
        let waiting = self.broker().pending(queue).await;
        let about = waiting.as_ref().is_ok_and(|waiting| (want.0..=want.0 + want.2).contains(waiting));
        assert!(about, "{when}: pending in `{queue}`: {waiting:?}, with a depth of {want:?}");
    }

    /// Waits for an expected depth, within the stated lag; `None` if depths are not supported.
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
            self.advance(STEP).await;
        }
    }

    /// The depth; `None` if depths are not supported.
    pub(super) async fn depth(&self, queue: &QueueName) -> Option<Depth> {
        self.supported(Aspect::Depth, self.broker().depth(queue).await)
    }
}

/// Error text of the previous attempt.
pub(super) fn error_of(delivery: &Delivery) -> Option<&str> {
    delivery.last_error.as_ref().map(|failure| failure.error.as_str())
}

/// Error of settling after the lease ended.
pub(super) fn fenced(queue: &QueueName) -> SettleError {
    SettleError::Fenced { queue: queue.clone() }
}

/// Bodies of dead letters.
pub(super) fn bodies(letters: &[DeadLetter]) -> Vec<String> {
    letters.iter().map(|letter| String::from_utf8_lossy(&letter.message.body).into_owned()).collect()
}

pub(super) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// Asserts that all fields are as published.
pub(super) fn assert_unchanged(got: &Message, sent: &Outgoing, when: &str) {
    assert_eq!(got.id, sent.id, "the id, {when}");
    assert_eq!(got.key, sent.key, "the key, {when}");
    assert_eq!(got.group, sent.group, "the group, {when}");
    assert_eq!(got.headers, sent.headers, "the headers, {when}");
    let lengths = (sent.body.len(), got.body.len());
    assert!(got.body == sent.body, "the body, {when}; {lengths:?} bytes sent and received");
}

/// `m000`, `m001` … of this length.
pub(super) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("m{i:03}")).collect()
}
