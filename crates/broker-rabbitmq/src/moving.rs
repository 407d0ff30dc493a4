//! Moving messages on: what nobody settled is written again beside its queue, with what has happened to it,
//! and buried when that was too much.

use crate::{
    engine::Engine,
    intake::{Arrived, Intake, Releasing, Source},
    names,
    publisher::Fate,
    wire::{End, History, Parcel},
};
use crawlway_broker::{Cause, Failure, QueueName, QueueSpec, Timestamp};
use std::{sync::Arc, time::Duration};

/// Before what could not be moved on is given back and comes again.
const BEFORE_GIVING_BACK: Duration = Duration::from_millis(500);

const LOST: &str = "the worker was lost, or its connection, before it settled this";
const NOT_IN_TIME: &str = "the lease was lost: not settled in time";

/// Why a message is written again although nobody has settled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// It has to wait on, or was never in the hands of a worker that was lost. Nothing is counted.
    NoneWasLost,
    /// Its lease has ended. Its worker is this process, which lives: the message is suspect, and no more.
    LeaseEnded,
    /// It has come back by itself. Where its worker ran nothing else, that is a solo crash.
    WorkerLost,
}

impl Engine {
    /// Where a message goes next with this history, and as what.
    pub(crate) fn parcel(
        &self,
        queue: &QueueSpec,
        arrived: &Arrived,
        mut history: History,
    ) -> (Parcel, bool) {
        let (name, now) = (&queue.name, Timestamp::now());
        if let Some(end) = end_of(queue, arrived, &history) {
            // The attempt that would have come next is not made.
            history.attempt -= u32::from(end.cause == Cause::AttemptsUsedUp);
            return (self.burial(name, arrived, &history, &end, now), true);
        }
        let left = history.not_before.map(|time| time.since(now)).unwrap_or_default();
        if left.is_zero() {
            history.not_before = None;
        }
        let place = names::waiting_place(name, left);
        let body = arrived.carried.message.body.clone();
        (Parcel::to_queue(place, arrived.carried.again(&history), body), false)
    }

    /// The message as a dead letter.
    pub(crate) fn burial(
        &self,
        queue: &QueueName,
        arrived: &Arrived,
        history: &History,
        end: &End,
        now: Timestamp,
    ) -> Parcel {
        let properties = arrived.carried.dead(history, end, now);
        Parcel::to_queue(names::dead(queue), properties, arrived.carried.message.body.clone())
    }

    /// Returns when this message can be acknowledged or given back without a message being sent that no
    /// receiver waits for.
    pub(crate) async fn before_release<'i>(
        &self,
        intake: &'i Intake,
        arrived: &Arrived,
    ) -> Option<Releasing<'i>> {
        let by_consumer = arrived.source == Source::Main && arrived.lane.consumes();
        if by_consumer && intake.is_limited() { Some(intake.before_release().await) } else { None }
    }

    /// Writes a message that nobody holds again, and acknowledges the original at once; in the background,
    /// few at a time, so that a kill leaves few copies beside their originals.
    pub(crate) fn move_on(self: &Arc<Self>, intake: &Arc<Intake>, arrived: Arrived, why: Because) {
        let (engine, intake) = (self.clone(), intake.clone());
        let counts = why != Because::NoneWasLost;
        let moving = (counts || arrived.source == Source::Main).then(|| intake.moving());
        self.runtime.spawn(async move {
            let step = intake.step().await;
            let left = engine.moved_on(&intake, arrived, why).await;
            drop(step);
            if let Some((arrived, history)) = left {
                engine.stayed(&intake, arrived, history).await;
            }
            drop(moving);
            intake.wake();
        });
    }

    /// Returns what the server did not take, with what would have been written.
    async fn moved_on(
        self: &Arc<Self>,
        intake: &Intake,
        arrived: Arrived,
        why: Because,
    ) -> Option<(Arrived, History)> {
        let (queue, mut history) = (&intake.queue, arrived.carried.history.clone());
        let mut mark = None;
        match why {
            // Should it come back, nobody had it meanwhile.
            Because::NoneWasLost => self.forgive(queue, &arrived),
            // Should it come back, that is counted then, and once.
            Because::LeaseEnded => history.lost(NOT_IN_TIME),
            Because::WorkerLost => {
                history.lost(LOST);
                match self.is_marked(queue, &arrived).await {
                    Some(false) => {}
                    Some(true) => {
                        history.solo_crashes = history.solo_crashes.saturating_add(1);
                        mark = Some(names::mark(queue, &arrived.carried.copy_id()));
                    }
                    None => return Some((arrived, history)),
                }
            }
        }
        // It is back in its queue by now; a copy would be one too many.
        if self.is_lost(&arrived.lane) {
            return None;
        }
        let (parcel, _) = self.parcel(&intake.spec(), &arrived, history.clone());
        let fate = match self.session().await {
            Ok(session) => session.publish(vec![parcel]).await.remove(0),
            Err(error) => Fate::Unsent(error.to_string()),
        };
        if fate == Fate::Confirmed {
            let released = self.before_release(intake, &arrived).await;
            // If this fails the channel is lost, and the message comes twice.
            let acknowledged = arrived.lane.ack_for_certain(&[arrived.tag]).await;
            drop(released);
            self.note_delayed(queue, 1).await;
            if acknowledged.is_ok() {
                self.unforgive(queue, &arrived);
            }
            if let Some(mark) = mark {
                self.unmark(mark).await;
            }
            return None;
        }
        tracing::warn!(%queue, ?fate, "a message could not be moved on");
        if fate == Fate::Unroutable {
            self.has_to_be_made_again(queue);
        }
        Some((arrived, history))
    }

    /// What could not be moved on is for whoever asks, and else goes back. A server that takes no publishes
    /// for want of memory or disk gets some only by what is finished.
    async fn stayed(&self, intake: &Intake, mut arrived: Arrived, history: History) {
        let early = history.not_before.is_some_and(|time| time > Timestamp::now());
        let given_up = end_of(&intake.spec(), &arrived, &history).is_some();
        if !early && !given_up && !self.is_lost(&arrived.lane) {
            // Should it come back from now on, that is because of whoever has it.
            let forgiven = self.unforgive(&intake.queue, &arrived);
            let was = std::mem::replace(&mut arrived.carried.history, history);
            match intake.offer(arrived) {
                None => return,
                Some(unwanted) => arrived = unwanted,
            }
            arrived.carried.history = was;
            if forgiven {
                self.forgive(&intake.queue, &arrived);
            }
        }
        self.return_later(&arrived).await;
    }

    /// Gives back what comes again at once, but not at once.
    async fn return_later(&self, arrived: &Arrived) {
        tokio::time::sleep(BEFORE_GIVING_BACK).await;
        let _ = arrived.lane.give_back(&[arrived.tag]).await;
    }

    /// Gives back what was taken and never handed out.
    pub(crate) async fn give_back(self: &Arc<Self>, intake: &Arc<Intake>, buffered: Vec<Arrived>) {
        for arrived in buffered {
            match arrived.source {
                Source::Main => {
                    self.forgive(&intake.queue, &arrived);
                    let _ = arrived.lane.give_back(&[arrived.tag]).await;
                }
                // Whoever gets it back from this queue takes its worker for lost, and there was none.
                Source::Due => {
                    if let Some((arrived, _)) = self.moved_on(intake, arrived, Because::NoneWasLost).await {
                        self.return_later(&arrived).await;
                    }
                }
            }
        }
    }
}

impl History {
    /// Notes a lost worker, which is no attempt.
    fn lost(&mut self, error: &str) {
        self.note(Failure { error: error.into(), at: Timestamp::now() });
        self.losses = self.losses.saturating_add(1);
        self.not_before = None;
    }
}

/// What ends a message with this history, if anything does.
fn end_of(queue: &QueueSpec, arrived: &Arrived, history: &History) -> Option<End> {
    let times = |count, what| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    if history.attempt > queue.max_attempts {
        let error = history.last_error.as_ref().map_or("", |failure| failure.error.as_str());
        let reason = format!("gave up after {}: {error}", times(history.attempt - 1, "attempt"));
        return Some(End { cause: Cause::AttemptsUsedUp, reason });
    }
    let crashes = history.solo_crashes;
    if crashes > arrived.carried.history.solo_crashes && crashes >= queue.max_solo_crashes {
        let reason = format!("its worker was lost {} while it ran nothing else", times(crashes, "time"));
        return Some(End { cause: Cause::WorkerLost, reason });
    }
    None
}
