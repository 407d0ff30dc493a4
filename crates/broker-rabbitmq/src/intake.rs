//! What this process takes from one queue: a consumer that fills a small buffer, and messages asked for one by one.
//!
//! A queue without a limit is consumed, which is fast. What has been prefetched and never handed out looks,
//! after a crash, like what killed its worker, and is suspect like it. So everything that comes back once is
//! moved to the `:due` queue, which nobody prefetches from: what comes back from there was handed out, and
//! becomes no more suspect than it is.
//!
//! A queue with a limit has a consumer that is sent one message at a time, and only while a receiver waits: what is in a
//! buffer would not be counted by the server. So the consumer is cancelled before its message is acknowledged, unless a
//! receiver waits for the next one by then. What a receiver wants beyond one message is asked for one by one.

mod limited;

pub(crate) use limited::Releasing;

use crate::{lane::Lane, wire::Carried};
use crawlway_broker::{MaxLength, QueueName, QueueSpec, Timestamp, suspects::Places};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::Instant,
};

/// What is in the buffer is given back when nobody has asked for this long.
const IDLE: Duration = Duration::from_secs(5);
/// How recent a call must be to count as interest although nobody waits at this moment.
const RECENT: Duration = Duration::from_secs(1);
/// How many messages at a time are on their way to the `:due` queue: as many have a copy beside their original when the
/// process is killed.
pub(crate) const MOVED_AT_ONCE: usize = 8;

/// Which of its queues a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Main,
    Due,
}

/// A message that came, and where to acknowledge it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) lane: Arc<Lane>,
    pub(crate) tag: u64,
    pub(crate) source: Source,
    pub(crate) carried: Carried,
}

#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) queue: QueueName,
    books: Mutex<Books>,
    /// Wakes receivers.
    changed: Notify,
    /// Wakes the task.
    kicked: Notify,
    steps: Semaphore,
}

#[derive(Debug)]
struct Books {
    spec: QueueSpec,
    buffer: VecDeque<Arrived>,
    /// Handed out and not settled.
    held: usize,
    peak: Peak,
    /// How many from the queue itself, or that a lost worker had, are on their way to the `:due` queue.
    moving: usize,
    /// How many were taken out of the buffer and are on their way back to the queue itself.
    returning: usize,
    /// How many of the consumer's messages are about to be acknowledged, and since when.
    releasing: usize,
    releasing_since: Instant,
    /// What waiting receivers would take.
    wanted: usize,
    last_max: usize,
    asked: Instant,
    paused: bool,
    /// Somebody purges: nothing is to be taken meanwhile.
    halted: bool,
    consuming: bool,
    running: bool,
    trouble: Trouble,
}

/// Why nothing can come.
#[derive(Debug, Default)]
struct Trouble {
    /// It, or something beside it, is not on the server as it should be.
    unmade: Option<String>,
    /// The server does not let us take from it.
    refused: Option<String>,
}

/// The highest of the numbers that were noted within the last while.
#[derive(Debug)]
struct Peak {
    began: Instant,
    before: usize,
    now: usize,
}

/// Longer than the management API lags behind.
const WHILE: Duration = Duration::from_secs(10);

impl Default for Peak {
    fn default() -> Self {
        Self { began: Instant::now(), before: 0, now: 0 }
    }
}

impl Peak {
    fn note(&mut self, number: usize) -> usize {
        let passed = self.began.elapsed();
        if passed > WHILE {
            self.before = if passed > 2 * WHILE { 0 } else { self.now };
            (self.began, self.now) = (Instant::now(), 0);
        }
        self.now = self.now.max(number);
        self.now.max(self.before)
    }
}

/// A receiver that waits for so many.
pub(crate) struct Wish<'a> {
    intake: &'a Intake,
    count: usize,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.intake.books().wanted -= self.count;
    }
}

/// A message on its way to the `:due` queue. However the way ends, it is not on it any more.
pub(crate) struct Moving(Arc<Intake>);

impl Drop for Moving {
    fn drop(&mut self) {
        let mut books = self.0.books();
        books.moving = books.moving.saturating_sub(1);
        drop(books);
        self.0.wake();
    }
}

impl Books {
    /// Nothing is to be taken.
    fn is_stopped(&self) -> bool {
        self.paused || self.halted || self.trouble.unmade.is_some()
    }

    fn is_limited(&self) -> bool {
        self.spec.max_length.is_some()
    }

    /// How many more may be handed out.
    fn allowed(&self) -> usize {
        (self.spec.prefetch as usize).saturating_sub(self.held)
    }

    /// Whether those who want so many would take more than what is in the buffer from these sources. Suspects
    /// are not got ahead: what is in the buffer when the process is lost becomes more suspect.
    fn wants_more(&self, wanted: usize, sources: &[Source]) -> bool {
        let mut places = Places::new(wanted.min(self.allowed()));
        let mut there = self.buffer.iter().filter(|arrived| sources.contains(&arrived.source));
        there.all(|arrived| places.take(arrived.carried.history.losses)) && places.are_left()
    }
}

impl Intake {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self {
            queue: spec.name.clone(),
            books: Mutex::new(Books {
                spec,
                buffer: VecDeque::new(),
                held: 0,
                peak: Peak::default(),
                moving: 0,
                returning: 0,
                releasing: 0,
                releasing_since: Instant::now(),
                wanted: 0,
                last_max: 0,
                asked: Instant::now(),
                paused: false,
                halted: false,
                consuming: false,
                running: false,
                trouble: Trouble::default(),
            }),
            changed: Notify::new(),
            kicked: Notify::new(),
            steps: Semaphore::new(MOVED_AT_ONCE),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    pub(crate) fn spec(&self) -> QueueSpec {
        self.books().spec.clone()
    }

    pub(crate) fn max_length(&self) -> Option<MaxLength> {
        self.books().spec.max_length
    }

    pub(crate) fn lease(&self) -> Duration {
        self.books().spec.lease
    }

    pub(crate) fn set_spec(&self, spec: QueueSpec) {
        self.books().spec = spec;
        self.kicked.notify_one();
    }

    /// Says that somebody takes so many at a time and still waits for so many of them, and sees to it that they are got.
    pub(crate) fn wish(&self, max: usize, count: usize) -> (Wish<'_>, bool) {
        let mut books = self.books();
        books.wanted += count;
        books.last_max = max;
        books.asked = Instant::now();
        let start = !std::mem::replace(&mut books.running, true);
        let limited = books.is_limited();
        drop(books);
        if limited {
            self.changed.notify_waiters();
        }
        self.kicked.notify_one();
        (Wish { intake: self, count }, start)
    }

    /// Takes what is there, up to `max` places and to what may be held.
    pub(crate) fn take(&self, max: usize) -> Vec<Arrived> {
        let mut books = self.books();
        books.asked = Instant::now();
        if books.paused || books.halted {
            return Vec::new();
        }
        let mut places = Places::new(max.min(books.allowed()));
        let fits = |arrived: &&Arrived| places.take(arrived.carried.history.losses);
        let count = books.buffer.iter().take_while(fits).count();
        books.held += count;
        books.buffer.drain(..count).collect()
    }

    /// Returns when there may be something to take. Call `enable` on it before looking.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Wakes everybody, since something is different.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
        self.kicked.notify_one();
    }

    /// Notes that so many are no longer in anybody's hands.
    pub(crate) fn released(&self, count: usize) {
        let mut books = self.books();
        let taken = books.held + books.buffer.len();
        books.peak.note(taken);
        books.held = books.held.saturating_sub(count);
        drop(books);
        self.wake();
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        let mut books = self.books();
        if std::mem::replace(&mut books.paused, paused) != paused {
            drop(books);
            self.wake();
        }
    }

    /// When those were published that are in the buffer, taken by nobody, as far as they say so.
    pub(crate) fn buffered_since(&self) -> Vec<Option<Timestamp>> {
        self.books().buffer.iter().map(|arrived| arrived.carried.says_published_at()).collect()
    }

    /// Takes out of the buffer what came on a channel that is lost; it comes again.
    pub(crate) fn forget(&self, is_lost: impl Fn(&Arrived) -> bool) -> Vec<Arrived> {
        let mut books = self.books();
        let (lost, kept): (Vec<Arrived>, Vec<Arrived>) = books.buffer.drain(..).partition(is_lost);
        books.buffer = kept.into();
        lost
    }

    /// The most that this process has had in its hands lately, handed out or not.
    pub(crate) fn recent_peak(&self) -> usize {
        let mut books = self.books();
        let taken = books.held + books.buffer.len();
        books.peak.note(taken)
    }

    /// Notes that one is on its way to the `:due` queue, until the answer is dropped.
    pub(crate) fn moving(self: &Arc<Self>) -> Moving {
        self.books().moving += 1;
        Moving(self.clone())
    }

    /// Whether there is something that was taken and has to be given back in an orderly end.
    pub(crate) fn has_anything(&self) -> bool {
        let books = self.books();
        books.running || !books.buffer.is_empty()
    }

    /// Stops taking until [`Intake::go_on`], and returns what was in the buffer.
    pub(crate) async fn halt(&self) -> Vec<Arrived> {
        self.books().halted = true;
        self.wake();
        loop {
            let changed = self.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut books = self.books();
                if !books.consuming || !books.running {
                    return books.buffer.drain(..).collect();
                }
            }
            changed.await;
        }
    }

    pub(crate) fn go_on(&self) {
        self.books().halted = false;
        self.wake();
    }

    /// Waits for the turn to move a message on.
    pub(crate) async fn step(&self) -> Option<SemaphorePermit<'_>> {
        self.steps.acquire().await.ok()
    }

    /// Whether the `:due` queue should be asked for a message now.
    pub(crate) fn wants_due(&self) -> bool {
        let books = self.books();
        // A copy must not be handed out while its original may still come back: both would count for themselves, and what
        // kills its workers would live on.
        if books.is_stopped() || books.moving > 0 {
            return false;
        }
        if books.is_limited() {
            return books.wants_more(books.wanted, &[Source::Main, Source::Due]);
        }
        // A busy consumer never waits, and yet what has come back must get its turn.
        let busy = !books.buffer.is_empty() && books.asked.elapsed() < RECENT;
        let recently = if busy { books.last_max } else { 0 };
        books.wants_more(books.wanted.max(recently), &[Source::Due])
    }

    /// What is wrong on the server with the queue or what stands beside it, so that it must not be used.
    pub(crate) fn unmade(&self) -> Option<String> {
        self.books().trouble.unmade.clone()
    }

    pub(crate) fn set_unmade(&self, why: Option<String>) {
        self.books().trouble.unmade = why;
        self.wake();
    }

    /// Notes what the server said when we wanted to take from the queue; returns whether that is new.
    pub(crate) fn set_refused(&self, why: Option<String>) -> bool {
        let mut books = self.books();
        let new = books.trouble.refused != why;
        books.trouble.refused = why;
        new
    }

    /// Why nothing can come, if that is so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = &self.books().trouble;
        trouble.unmade.clone().or_else(|| trouble.refused.clone())
    }

    /// Whether somebody waits at this moment, for whom it is worth to ask at once.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.books().wanted > 0
    }

    /// Has somebody take this, unless nobody is interested, or may be; then it is returned.
    pub(crate) fn offer(&self, arrived: Arrived) -> Option<Arrived> {
        let books = self.books();
        if !books.running || books.paused || books.halted {
            return Some(arrived);
        }
        self.put_into(books, arrived);
        None
    }

    pub(crate) fn put(&self, arrived: Arrived) {
        self.put_into(self.books(), arrived);
    }

    fn put_into(&self, mut books: MutexGuard<'_, Books>, arrived: Arrived) {
        match arrived.source {
            Source::Main => books.buffer.push_back(arrived),
            // Handed out next, so that there is hardly a time in which it is here and nobody has it.
            Source::Due => books.buffer.push_front(arrived),
        }
        let taken = books.held + books.buffer.len();
        books.peak.note(taken);
        drop(books);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_idle(&self) -> bool {
        let books = self.books();
        books.wanted == 0 && books.asked.elapsed() > IDLE
    }

    /// Ends the task unless somebody has asked meanwhile.
    pub(crate) fn try_stop(&self) -> bool {
        let mut books = self.books();
        // What came in meanwhile is given back first.
        let idle = books.wanted == 0 && books.asked.elapsed() > IDLE && books.buffer.is_empty();
        if idle {
            books.running = false;
        }
        idle
    }

    /// Notes that the task has ended.
    pub(crate) fn stopped(&self) {
        self.books().running = false;
        self.changed.notify_waiters();
    }

    /// Empties the buffer.
    pub(crate) fn empty(&self) -> Vec<Arrived> {
        self.books().buffer.drain(..).collect()
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.books().halted
    }

    pub(crate) fn prefetch(&self) -> u32 {
        self.books().spec.prefetch
    }

    /// Returns when somebody wants the task to look.
    pub(crate) async fn kicked(&self) {
        self.kicked.notified().await;
    }

    pub(crate) fn set_consuming(&self, consuming: bool) {
        self.books().consuming = consuming;
        self.changed.notify_waiters();
    }
}
