//! The consumer of a queue with a limit: it is sent one message at a time, and only while a receiver waits for one, since
//! the server does not count what it has sent.

use super::{Arrived, Intake, Source};
use std::time::Duration;
use tokio::time::Instant;

/// How long a queue with a limit stays consumed while no receiver waits. One that takes message after message is back
/// before.
const BETWEEN_RECEIVES: Duration = Duration::from_millis(50);
/// How long the acknowledgement of a limited queue's message waits for the next receiver before the consumer is cancelled.
const BEFORE_RELEASE: Duration = Duration::from_millis(20);
/// How long it waits at most until the consumer is cancelled.
const RELEASED_WITHIN: Duration = Duration::from_millis(500);
/// A message of a limited queue's consumer that is being acknowledged.
pub(crate) struct Releasing<'a>(&'a Intake);

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        let mut books = self.0.books();
        books.releasing = books.releasing.saturating_sub(1);
    }
}

impl Intake {
    pub(crate) fn is_limited(&self) -> bool {
        self.books().is_limited()
    }

    /// Whether the queue should have a consumer, given whether it has one.
    pub(crate) fn wants_consumer(&self, consuming: bool) -> bool {
        let books = self.books();
        if books.is_stopped() {
            return false;
        }
        if !books.is_limited() || books.wanted > 0 {
            return true;
        }
        let released = books.releasing > 0 && books.releasing_since.elapsed() >= BEFORE_RELEASE;
        let at_work = books.held > 0 || books.asked.elapsed() < BETWEEN_RECEIVES;
        consuming && at_work && !released
    }

    /// Whether the consumer of a limited queue may have to be cancelled any moment.
    pub(crate) fn consumer_in_doubt(&self) -> bool {
        let books = self.books();
        books.is_limited() && books.wanted == 0 && (books.releasing > 0 || books.held == 0)
    }

    /// Returns when the consumer's message can be acknowledged: a receiver waits for the next one, or the consumer is
    /// cancelled. Keep the answer until that is done.
    pub(crate) async fn before_release(&self) -> Releasing<'_> {
        {
            let mut books = self.books();
            if books.releasing == 0 {
                books.releasing_since = Instant::now();
            }
            books.releasing += 1;
        }
        let releasing = Releasing(self);
        self.kicked.notify_one();
        let ready = async {
            loop {
                let changed = self.changed();
                tokio::pin!(changed);
                changed.as_mut().enable();
                {
                    let books = self.books();
                    if books.wanted > 0 || !books.consuming || !books.running {
                        return;
                    }
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(RELEASED_WITHIN, ready).await;
        releasing
    }

    /// Whether a queue with a limit should be asked for a message now, beside the one that its consumer may be sent.
    pub(crate) fn wants_main(&self, consumer_is_free: bool) -> bool {
        let books = self.books();
        if !books.is_limited() || books.is_stopped() || books.moving > 0 {
            return false;
        }
        let coming = usize::from(consumer_is_free);
        let wanted = books.wanted.min(books.allowed()).saturating_sub(coming);
        books.wants_more(wanted, &[Source::Main, Source::Due])
    }

    /// How many of the queue itself are in the buffer, or on their way back from there: the server does not count them.
    pub(crate) fn buffered_main(&self) -> usize {
        let books = self.books();
        books.returning + books.buffer.iter().filter(|arrived| arrived.source == Source::Main).count()
    }

    /// Returns when the consumer of a limited queue is either cancelled or has someone to send to: what it is sent meanwhile,
    /// no one counts.
    pub(crate) async fn consumer_out_of_doubt(&self) {
        let out_of_doubt = async {
            loop {
                let changed = self.changed();
                tokio::pin!(changed);
                changed.as_mut().enable();
                {
                    let books = self.books();
                    if !books.consuming || books.wanted > 0 || books.held > 0 {
                        return;
                    }
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(RELEASED_WITHIN, out_of_doubt).await;
    }

    /// Notes that so many are back in the queue itself.
    pub(crate) fn returned(&self, count: usize) {
        self.books().returning -= count;
    }

    /// Takes out of the buffer what came from the queue itself, until it is [`returned`](Self::returned).
    pub(crate) fn empty_main(&self) -> Vec<Arrived> {
        let mut books = self.books();
        let (main, due): (Vec<Arrived>, Vec<Arrived>) =
            books.buffer.drain(..).partition(|arrived| arrived.source == Source::Main);
        books.buffer = due.into();
        books.returning += main.len();
        main
    }
}
