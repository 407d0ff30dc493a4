//! The oracle's data: plain lists, searched from the front.

use super::{
    Fault,
    manner::{LATE, Manner, OVERSHOT},
};
use crawlway_broker::{
    Aspect, Cause, DeadId, DeadLetter, Delivery, Depth, Failure, MaxLength, Message, Outgoing, PublishError,
    QueueName, QueueSpec, Rates, Receipt, Settled, Target, Timestamp, Verdict, limits, suspects::Places,
};
use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};

/// The largest message that the oracle takes.
pub(crate) const MAX_MESSAGE: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) manner: Manner,
    pub(crate) fault: Fault,
    pub(crate) now: Timestamp,
    pub(crate) epoch: u64,
    pub(crate) queues: BTreeMap<QueueName, Queue>,
    tag: u64,
    dead_id: u64,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,
    pub(crate) items: Vec<Item>,
    pub(crate) dead: Vec<DeadLetter>,
    pub(crate) paused: bool,
    /// The depth as it was told last, and when.
    pub(crate) told: Option<(Timestamp, Depth)>,
    /// When messages were published.
    pub(crate) published: Vec<Timestamp>,
    /// When deliveries were settled.
    settled: Vec<Timestamp>,
    graveyard: Vec<Item>,
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) message: Message,
    pub(crate) place: Place,
    /// Attempts that have failed.
    failed: u32,
    /// Workers that were lost with it.
    losses: u32,
    /// Those of them that ran nothing else.
    solo_crashes: u32,
    /// Its worker runs nothing else.
    alone: bool,
    first_error: Option<Failure>,
    last_error: Option<Failure>,
    replays: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Waits { until: Timestamp },
    Held { receipt: Receipt, handle: u64, until: Timestamp },
}

/// How a delivery was lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Crash,
    Lease,
}

impl State {
    pub(crate) fn new(manner: Manner, fault: Fault) -> Self {
        // Not zero, so that times can be taken back from.
        let now = Timestamp::from_millis(1_700_000_000_000);
        Self { manner, fault, now, epoch: 1, queues: BTreeMap::new(), tag: 0, dead_id: 0 }
    }

    /// By how much things are late.
    pub(crate) fn late(&self) -> Duration {
        match (self.manner, self.fault) {
            (_, Fault::LaterThanStated) => 40 * LATE,
            (Manner::Emulated, _) => LATE,
            _ => Duration::ZERO,
        }
    }

    /// When something that is to wait until then becomes ready.
    fn ready_at(&self, until: Timestamp) -> Timestamp {
        match until {
            past if past < self.now && self.is(Fault::PastIsLater) => self.now + 100 * LATE,
            past if past <= self.now => past,
            later => later + self.late(),
        }
    }

    pub(crate) fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The process goes down and comes up again: what was held is held no more.
    pub(crate) fn reopen(&mut self, orderly: bool) {
        self.epoch += 1;
        let (now, fault, manner) = (self.now, self.fault, self.manner);
        for queue in self.queues.values_mut() {
            match fault {
                Fault::LosesReadyOnRestart => queue.items.retain(|item| !item.ready(now)),
                Fault::LosesDelayedOnRestart => queue.items.retain(|item| item.held() || item.ready(now)),
                Fault::LosesDeadOnRestart => queue.dead.clear(),
                Fault::LosesInFlightOnRestart if orderly => queue.items.retain(|item| !item.held()),
                Fault::ReturnsDeadAfterRestart => {
                    let dead = queue.dead.iter().map(|letter| Item::fresh(letter.message.clone(), now, 0));
                    queue.items.extend(dead.collect::<Vec<_>>());
                }
                Fault::LosesInFlightOnCut if !orderly => queue.items.retain(|item| !item.held()),
                Fault::ForgetsAttemptsOnRestart => queue.items.iter_mut().for_each(|item| item.failed = 0),
                Fault::ForgetsPauseOnRestart => queue.paused = false,
                Fault::ReturnsSettledAfterRestart => queue.items.append(&mut queue.graveyard),
                _ => {}
            }
            if manner == Manner::Emulated {
                // The last acknowledgement was not confirmed.
                queue.items.extend(queue.graveyard.pop());
            }
        }
        if !self.is(Fault::TakesReceiptOfBefore) {
            self.release(|_| true, Loss::Crash);
        }
    }

    /// Takes back what is lost; must be called before anything else looks.
    pub(crate) fn sweep(&mut self) {
        if self.is(Fault::LeaseNeverEnds) {
            return;
        }
        let early = Duration::from_millis(if self.is(Fault::LeaseEndsEarly) { 300 } else { 0 });
        let now = self.now + early - self.late();
        self.release(|until| until <= now, Loss::Lease);
    }

    fn release(&mut self, lost: impl Fn(Timestamp) -> bool, how: Loss) {
        let (notices, fault) = (!self.manner.refuses(Aspect::CrashCount), self.fault);
        let counts_attempt = match how {
            Loss::Crash => fault == Fault::CountsCut,
            Loss::Lease => fault == Fault::CountsLostLease,
        };
        let failure = Failure { error: "the worker was lost".into(), at: self.now };
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        for name in names {
            let mut index = 0;
            while let Some(item) = self.queue(&name).items.get_mut(index) {
                match item.place {
                    Place::Held { until, .. } if lost(until) => {
                        item.place = Place::Waits { until: failure.at };
                        let alone = std::mem::replace(&mut item.alone, fault == Fault::AloneForEver);
                        if notices {
                            item.losses += u32::from(fault != Fault::ForgetsLosses);
                            item.first_error.get_or_insert_with(|| failure.clone());
                            item.last_error = Some(failure.clone());
                        }
                        let counts = match how {
                            Loss::Crash => fault != Fault::IgnoresAlone,
                            Loss::Lease => fault == Fault::CountsFrozenWorker,
                        };
                        item.solo_crashes += u32::from(notices && alone && counts);
                        if fault == Fault::GroupRetryLosesItsTurn {
                            let queue = self.queue(&name);
                            let item = queue.items.remove(index);
                            queue.items.push(item);
                            index = 0;
                            continue;
                        }
                        let (solo_crashes, attempts) = (item.solo_crashes, item.failed + 1);
                        if counts_attempt {
                            self.fail(&name, index, Duration::ZERO, failure.clone());
                        } else if solo_crashes >= self.queue(&name).spec.max_solo_crashes {
                            let reason =
                                format!("it took {solo_crashes} workers with it that ran nothing else");
                            self.bury(&name, index, Cause::WorkerLost, reason, attempts);
                        }
                        // An item that died has left the list.
                        index = 0;
                    }
                    _ => index += 1,
                }
            }
        }
    }

    pub(crate) fn queue(&mut self, name: &QueueName) -> &mut Queue {
        self.queues.get_mut(name).expect("calls check the name first")
    }

    /// Counts a failed attempt, and buries the item after the last.
    fn fail(&mut self, name: &QueueName, index: usize, after: Duration, failure: Failure) -> Settled {
        let fault = self.fault;
        let early = Duration::from_millis(if fault == Fault::EarlyRetry { 100 } else { 0 });
        let until = self.ready_at(self.now + after.saturating_sub(early));
        let queue = self.queue(name);
        let mut last = queue.spec.max_attempts;
        match fault {
            Fault::NeverDead => last = u32::MAX,
            Fault::DeadOneLate => last += 1,
            _ => {}
        }
        let item = &mut queue.items[index];
        item.failed += 1;
        if item.first_error.is_none() || fault == Fault::ForgetsFirstError {
            item.first_error = Some(failure.clone());
        }
        item.last_error =
            if fault == Fault::LastErrorIsFirst { item.first_error.clone() } else { Some(failure) };
        if item.failed >= last {
            let attempts = item.failed;
            let reason = format!("all {attempts} attempts failed");
            return self.bury(name, index, Cause::AttemptsUsedUp, reason, attempts);
        }
        item.place = Place::Waits { until };
        let attempt = item.failed + 1;
        if fault == Fault::GroupRetryLosesItsTurn {
            let item = queue.items.remove(index);
            queue.items.push(item);
        }
        Settled::Retrying { attempt }
    }

    fn bury(
        &mut self,
        name: &QueueName,
        index: usize,
        cause: Cause,
        reason: String,
        attempts: u32,
    ) -> Settled {
        self.dead_id += 1;
        let id = DeadId(format!("{:08}", self.dead_id));
        let (dead_at, fault) = (self.now, self.fault);
        let queue = self.queue(name);
        let item = queue.items.remove(index);
        if fault == Fault::OneVerdictForAllCopies {
            for queue in self.queues.values_mut() {
                queue.items.retain(|copy| copy.message.id != item.message.id);
            }
        }
        let queue = self.queue(name);
        if fault == Fault::GroupStuckAfterDead && queue.spec.groups {
            let stuck = Item { place: Place::Waits { until: dead_at + Duration::MAX }, ..item.clone() };
            queue.items.insert(index, stuck);
        }
        queue.dead.push(DeadLetter {
            id,
            queue: name.clone(),
            message: item.message,
            cause,
            reason,
            attempts,
            first_error: item.first_error,
            last_error: item.last_error,
            dead_at,
            replays: item.replays,
        });
        Settled::Dead
    }

    /// The queues that a message goes to.
    pub(crate) fn route(&self, message: &Outgoing) -> Result<Vec<QueueName>, PublishError> {
        match &message.to {
            Target::Queue(name) if self.queues.contains_key(name) => Ok(vec![name.clone()]),
            Target::Queue(name) => Err(PublishError::UnknownQueue {
                queue: name.clone(),
                known: self.queues.keys().cloned().collect(),
            }),
            Target::Topic { exchange, topic } => {
                let matches = |pattern: &str, exact: bool| match self.fault {
                    Fault::StarMatchesMany => {
                        exact || (pattern.ends_with(".*") && topic.starts_with(&pattern[..2]))
                    }
                    Fault::HashNeedsAWord => {
                        exact
                            && !(pattern.ends_with(".#")
                                && pattern.split('.').count() > topic.split('.').count())
                    }
                    _ => exact,
                };
                let mut names = Vec::new();
                for queue in self.queues.values() {
                    let bound = queue.spec.bindings.iter().filter(|binding| {
                        (binding.exchange == *exchange || self.is(Fault::ExchangesMixed))
                            && matches(binding.pattern.as_str(), binding.pattern.matches(topic))
                    });
                    let copies = if self.is(Fault::CopyPerBinding) { usize::MAX } else { 1 };
                    names.extend(bound.take(copies).map(|_| queue.spec.name.clone()));
                }
                if self.is(Fault::FirstQueueOnly) {
                    names.truncate(1);
                }
                if names.is_empty() && !self.is(Fault::DropsUnroutable) {
                    return Err(PublishError::Unroutable {
                        exchange: exchange.clone(),
                        topic: topic.clone(),
                    });
                }
                Ok(names)
            }
        }
    }

    /// Whether the queue takes one more.
    pub(crate) fn room(&self, name: &QueueName) -> Result<(), PublishError> {
        let queue = &self.queues[name];
        let Some(max) = queue.spec.max_length else { return Ok(()) };
        let counts = |item: &&Item| match self.fault {
            Fault::LimitCountsInFlight => true,
            Fault::LimitIgnoresDelayed => item.ready(self.now),
            _ => !item.held(),
        };
        let waiting = queue.items.iter().filter(counts).count() as u64;
        let slack = if let MaxLength::Approximate { slack, .. } = max { slack } else { 0 };
        let limit = match self.fault {
            Fault::LimitOneMore => max.limit() + slack + 1,
            Fault::LimitOneLess => max.limit() - 1,
            Fault::IgnoresLimit => u64::MAX,
            Fault::OvershootsItsSlack => max.limit() + slack + 1,
            _ if self.manner == Manner::Emulated => max.limit() + slack.min(OVERSHOT),
            _ => max.limit(),
        };
        if waiting < limit {
            return Ok(());
        }
        Err(PublishError::QueueFull { queue: name.clone(), limit: max.limit() })
    }

    pub(crate) fn add(&mut self, name: &QueueName, message: Message, until: Timestamp, replays: u32) {
        let item = Item::fresh(message, self.ready_at(until), replays);
        let newest_first = self.is(Fault::NewestFirst) || self.manner.refuses(Aspect::Order);
        let items = &mut self.queue(name).items;
        if newest_first { items.insert(0, item) } else { items.push(item) }
    }

    /// Lets the newest item start where its predecessor ended.
    pub(crate) fn keep_attempts(&mut self, name: &QueueName, attempts: u32) {
        if let Some(item) = self.queue(name).items.last_mut() {
            item.failed = attempts;
        }
    }

    /// Leases what is ready to this handle.
    pub(crate) fn take(&mut self, name: &QueueName, max: usize, handle: u64) -> Vec<Delivery> {
        self.sweep();
        let (now, epoch, fault) = (self.now, self.epoch, self.fault);
        let queue = self.queues.get_mut(name).expect("calls check the name first");
        if queue.paused && fault != Fault::IgnoresPause {
            return Vec::new();
        }
        let held = queue.items.iter().filter(|item| item.held_by(handle)).count();
        let mut allowed = (queue.spec.prefetch as usize).saturating_sub(held).min(max);
        match fault {
            Fault::IgnoresPrefetch => allowed = max,
            Fault::IgnoresMax => allowed = (queue.spec.prefetch as usize).saturating_sub(held),
            _ => {}
        }
        let fresh = |item: &Item| item.failed == 0 && item.ready(now);
        let only_fresh = fault == Fault::ReturnsComeLast && queue.items.iter().any(fresh);
        let mut busy: BTreeMap<String, u32> = BTreeMap::new();
        let mut places = Places::new(allowed);
        let mut taken = Vec::new();
        for item in &mut queue.items {
            if taken.len() == allowed {
                break;
            }
            if queue.spec.groups {
                let group = item.message.group.clone().unwrap_or_default();
                let ahead = busy.entry(group).or_default();
                *ahead += 1;
                if *ahead > if fault == Fault::GroupPairInFlight { 2 } else { 1 } {
                    continue;
                }
            }
            if only_fresh && !fresh(item) {
                continue;
            }
            if !item.ready(now) {
                let delayed = !item.held();
                let stops = match fault {
                    Fault::DelayBlocksQueue => delayed && item.failed > 0,
                    Fault::GroupBlocksAll => queue.spec.groups,
                    Fault::DelaysAreFifo => delayed,
                    _ => false,
                };
                if stops {
                    break;
                }
                continue;
            }
            if !places.take(if fault == Fault::SuspectsComeTogether { 0 } else { item.losses }) {
                break;
            }
            self.tag += 1;
            let receipt = Receipt { queue: name.clone(), epoch, tag: self.tag };
            let until = now + queue.spec.lease;
            if fault != Fault::DeliversTwice {
                item.place = Place::Held { receipt: receipt.clone(), handle, until };
            }
            taken.push(Delivery {
                receipt,
                message: item.message.clone(),
                attempt: item.failed + 1,
                losses: item.losses,
                last_error: item.last_error.clone(),
                replays: item.replays,
                lease_until: if fault == Fault::StatesNoLease { now } else { until },
            });
        }
        if fault == Fault::LargeGroupFirst && queue.spec.groups {
            self.only_the_largest(name, &mut taken);
        }
        taken
    }

    /// A backend that serves the group with the longest backlog first starves the others.
    fn only_the_largest(&mut self, name: &QueueName, taken: &mut Vec<Delivery>) {
        let now = self.now;
        let queue = self.queue(name);
        let mut sizes: BTreeMap<&Option<String>, usize> = BTreeMap::new();
        for item in &queue.items {
            *sizes.entry(&item.message.group).or_default() += 1;
        }
        let largest = sizes.into_iter().max_by_key(|(_, size)| *size).map(|(group, _)| group.clone());
        taken.retain(|delivery| Some(&delivery.message.group) == largest.as_ref());
        let kept: BTreeSet<u64> = taken.iter().map(|delivery| delivery.receipt.tag).collect();
        for item in &mut queue.items {
            if let Place::Held { receipt, .. } = &item.place
                && !kept.contains(&receipt.tag)
            {
                item.place = Place::Waits { until: now };
            }
        }
    }

    /// Where the delivery of this receipt is, if it is still its receiver's.
    pub(crate) fn held(&mut self, receipt: &Receipt) -> Option<(QueueName, usize)> {
        if !self.is(Fault::TakesExpiredSettle) {
            self.sweep();
        }
        for (name, queue) in &self.queues {
            let found = queue.items.iter().position(|item| match &item.place {
                Place::Held { receipt: held, .. } => {
                    (held.tag == receipt.tag && held.epoch == receipt.epoch)
                        || (self.is(Fault::TakesLateSettle) && held.queue == receipt.queue)
                }
                Place::Waits { .. } => self.is(Fault::TakesSecondSettle) && receipt.queue == *name,
            });
            if let Some(index) = found
                && (*name == receipt.queue || self.is(Fault::IgnoresReceiptQueue))
            {
                return Some((name.clone(), index));
            }
        }
        None
    }

    /// Notes that nothing runs beside a delivery.
    pub(crate) fn alone(&mut self, receipt: &Receipt) -> bool {
        let any = self.is(Fault::AloneForAnybody);
        let held = self.held(receipt);
        if let Some((name, index)) = &held {
            self.queue(name).items[*index].alone = true;
        }
        held.is_some() || any
    }

    pub(crate) fn settle(&mut self, name: &QueueName, index: usize, verdict: Verdict) -> Settled {
        let (now, fault) = (self.now, self.fault);
        let item = &mut self.queue(name).items[index];
        item.alone &= fault == Fault::AloneForEver;
        if fault == Fault::RetryForgetsSoloCrashes {
            item.solo_crashes = 0;
        }
        let cut = |text: String| match fault {
            Fault::UncutErrors => text,
            _ => limits::truncated(&text, limits::MAX_ERROR).to_owned(),
        };
        let later = |until| self.ready_at(until);
        let deferred = match verdict {
            Verdict::Defer { until } if fault == Fault::EarlyDefer => {
                later(until - Duration::from_millis(100))
            }
            Verdict::Defer { until } => later(until),
            _ => now,
        };
        let full = fault == Fault::LimitRejectsReturns && self.room(name).is_err();
        let queue = self.queue(name);
        queue.settled.push(now);
        match verdict {
            Verdict::Done => {
                let item = queue.items.remove(index);
                if fault == Fault::DoneComesBack {
                    let until = now + queue.spec.lease;
                    queue.items.push(Item { place: Place::Waits { until }, ..item.clone() });
                }
                queue.graveyard.push(Item { place: Place::Waits { until: now }, ..item });
                Settled::Done
            }
            Verdict::Retry { .. } | Verdict::Requeue | Verdict::Defer { .. } if full => {
                queue.items.remove(index);
                if verdict == Verdict::Requeue { Settled::Requeued } else { Settled::Deferred }
            }
            Verdict::Requeue => {
                let item = &mut queue.items[index];
                let later = if fault == Fault::RequeueIsLate { queue.spec.lease } else { Duration::ZERO };
                item.place = Place::Waits { until: now + later };
                if fault == Fault::CountsRequeue {
                    item.failed += 1;
                }
                if fault == Fault::RequeueForgetsError {
                    item.last_error = None;
                }
                Settled::Requeued
            }
            Verdict::Retry { after, error } => {
                let settled = self.fail(name, index, after, Failure { error: cut(error), at: now });
                if fault == Fault::DoesNotCountRetry && settled != Settled::Dead {
                    self.queue(name).items[index].failed -= 1;
                }
                settled
            }
            Verdict::Defer { .. } => {
                let item = &mut queue.items[index];
                item.place = Place::Waits { until: deferred };
                if fault == Fault::CountsDefer {
                    item.failed += 1;
                }
                if fault == Fault::DeferForgetsError {
                    item.last_error = None;
                }
                Settled::Deferred
            }
            Verdict::Dead { reason } => {
                let attempts = queue.items[index].failed + 1;
                let failure = Failure { error: cut(reason.clone()), at: now };
                let item = &mut queue.items[index];
                if fault != Fault::LastErrorIsFirst {
                    item.last_error = Some(failure.clone());
                }
                if fault == Fault::ForgetsFirstError {
                    item.first_error = Some(failure);
                }
                self.bury(name, index, Cause::Refused, cut(reason), attempts)
            }
        }
    }
}

impl Item {
    fn fresh(message: Message, until: Timestamp, replays: u32) -> Self {
        let place = Place::Waits { until };
        Self {
            message,
            place,
            failed: 0,
            losses: 0,
            solo_crashes: 0,
            alone: false,
            first_error: None,
            last_error: None,
            replays,
        }
    }

    pub(crate) fn held(&self) -> bool {
        matches!(self.place, Place::Held { .. })
    }

    fn held_by(&self, by: u64) -> bool {
        matches!(self.place, Place::Held { handle, .. } if handle == by)
    }

    pub(crate) fn ready(&self, now: Timestamp) -> bool {
        matches!(self.place, Place::Waits { until } if until <= now)
    }
}

impl Queue {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self {
            spec,
            items: Vec::new(),
            dead: Vec::new(),
            paused: false,
            told: None,
            published: Vec::new(),
            settled: Vec::new(),
            graveyard: Vec::new(),
        }
    }

    pub(crate) fn rates(&self, now: Timestamp) -> Rates {
        let rate = |times: &[Timestamp]| {
            let lately = times.iter().filter(|time| now.since(**time) < Rates::WINDOW).count();
            lately as f64 / Rates::WINDOW.as_secs_f64()
        };
        Rates { published: rate(&self.published), settled: rate(&self.settled) }
    }
}
