//! Delivery history of a message on brokers that keep it in headers.

use crate::{DeadLetterCause, Death, Failure, SettleOutcome, Timestamp, Verdict, limits};

/// Header with the group of a message.
pub const GROUP: &str = "x-crawlway-group";
/// Header with the cause of a dead letter.
pub const DEAD_CAUSE: &str = "x-crawlway-dead-cause";
/// Header with the reason of a dead letter, in words.
pub const DEAD_REASON: &str = "x-crawlway-dead-reason";
/// Header with the number of the next attempt; of a dead letter, with the number of its attempts.
pub const ATTEMPT: &str = "x-crawlway-attempt";
const LOSSES: &str = "x-crawlway-losses";
const SOLO_CRASHES: &str = "x-crawlway-solo-crashes";
const REPLAYS: &str = "x-crawlway-replays";
/// Header with the time before which a message is not delivered, in milliseconds since 1970.
pub const NOT_BEFORE: &str = "x-crawlway-not-before";
const FIRST_ERROR: (&str, &str) = ("x-crawlway-first-error", "x-crawlway-first-error-at");
const LAST_ERROR: (&str, &str) = ("x-crawlway-last-error", "x-crawlway-last-error-at");

/// Delivery history of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Number of the next attempt, from 1.
    pub attempt: u32,
    /// Number of replays.
    pub replays: u32,
    /// Workers that were lost while they had it.
    pub losses: u32,
    /// Lost workers that ran nothing else.
    pub solo_crashes: u32,
    /// Time before which it is not delivered.
    pub not_before: Option<Timestamp>,
    /// Error of the first failed attempt.
    pub first_error: Option<Failure>,
    /// Error of the last failed attempt.
    pub last_error: Option<Failure>,
}

/// Value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// A count, or a time in milliseconds.
    Number(u64),
    /// A text.
    Text(String),
}

/// History of a new message.
impl Default for History {
    fn default() -> Self {
        Self {
            attempt: 1,
            replays: 0,
            losses: 0,
            solo_crashes: 0,
            not_before: None,
            first_error: None,
            last_error: None,
        }
    }
}

/// What becomes of a message by a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// It is done.
    Done,
    /// It is delivered again, with this history; not before [`History::not_before`].
    Redeliver(History, SettleOutcome),
    /// It becomes a dead letter, with this history.
    Bury(History, Death),
}

impl History {
    /// Applies a verdict. Long texts are truncated.
    pub fn apply(mut self, verdict: Verdict, max_attempts: u32, now: Timestamp) -> NextStep {
        let truncated = |text: String| limits::truncated(&text, limits::MAX_ERROR_BYTES).to_owned();
        self.not_before = None;
        match verdict {
            Verdict::Done => NextStep::Done,
            Verdict::Requeue => NextStep::Redeliver(self, SettleOutcome::Requeued),
            Verdict::Defer { until } => {
                self.not_before = Some(until).filter(|until| *until > now);
                NextStep::Redeliver(self, SettleOutcome::Deferred)
            }
            Verdict::Dead { reason } => {
                NextStep::Bury(self, Death { cause: DeadLetterCause::Refused, reason: truncated(reason) })
            }
            Verdict::Retry { after, error } => {
                let failure = Failure { error: truncated(error), at: now };
                if self.attempt >= max_attempts {
                    let death = Death::after_attempts(self.attempt, &failure.error);
                    self.record_error(failure);
                    return NextStep::Bury(self, death);
                }
                self.record_attempt(failure);
                self.not_before = Some(now + after).filter(|until| *until > now);
                let attempt = self.attempt;
                NextStep::Redeliver(self, SettleOutcome::Retrying { attempt })
            }
        }
    }

    /// Counts a failed attempt.
    pub fn record_attempt(&mut self, failure: Failure) {
        self.record_error(failure);
        self.attempt = self.attempt.saturating_add(1);
    }

    /// Records an error without counting an attempt.
    pub fn record_error(&mut self, failure: Failure) {
        self.first_error.get_or_insert_with(|| failure.clone());
        self.last_error = Some(failure);
    }

    /// Reads the history from headers, by their numbers and texts.
    pub fn from_headers(number: impl Fn(&str) -> Option<u64>, text: impl Fn(&str) -> Option<String>) -> Self {
        let count = |name| number(name).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let failure = |(name, at): (&str, &str)| {
            Some(Failure { error: text(name)?, at: Timestamp::from_millis(number(at).unwrap_or(0)) })
        };
        Self {
            attempt: count(ATTEMPT).unwrap_or(1).max(1),
            replays: count(REPLAYS).unwrap_or(0),
            losses: count(LOSSES).unwrap_or(0),
            solo_crashes: count(SOLO_CRASHES).unwrap_or(0),
            not_before: number(NOT_BEFORE).map(Timestamp::from_millis),
            first_error: failure(FIRST_ERROR),
            last_error: failure(LAST_ERROR),
        }
    }

    /// Headers with the history: none for a new message.
    pub fn headers(&self) -> Vec<(&'static str, HeaderValue)> {
        let mut headers = Vec::new();
        let counts = [
            (ATTEMPT, if self.attempt > 1 { self.attempt } else { 0 }),
            (REPLAYS, self.replays),
            (LOSSES, self.losses),
            (SOLO_CRASHES, self.solo_crashes),
        ];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            headers.push((name, HeaderValue::Number(count.into())));
        }
        if let Some(time) = self.not_before {
            headers.push((NOT_BEFORE, HeaderValue::Number(time.as_millis())));
        }
        for ((name, at), failure) in [(FIRST_ERROR, &self.first_error), (LAST_ERROR, &self.last_error)] {
            if let Some(failure) = failure {
                headers.push((name, HeaderValue::Text(failure.error.clone())));
                headers.push((at, HeaderValue::Number(failure.at.as_millis())));
            }
        }
        headers
    }
}
