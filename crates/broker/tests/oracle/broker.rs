//! The oracle behind the contract's trait.

use super::{
    Fault, Shared,
    state::{MAX_MESSAGE, Place, Queue, State},
};
use crawlway_broker::{
    Aspect, Broker, BrokerError, DeadFilter, DeadId, DeadPage, Delivery, Depth, Guarantees, Message,
    Outgoing, PublishError, QueueName, QueueSpec, Receipt, Replayed, SettleError, Settled, Support, Verdict,
    limits,
};
use std::{
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// One handle on the shared data.
#[derive(Debug)]
pub struct Oracle {
    shared: Arc<Shared>,
    number: u64,
    epoch: u64,
    closed: AtomicBool,
}

impl Oracle {
    pub fn open(shared: Arc<Shared>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let epoch = shared.state().epoch;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { shared, number, epoch, closed: AtomicBool::new(false) }
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.shared.state();
        let gone = self.closed.load(Ordering::SeqCst) || self.epoch != state.epoch;
        if gone { None } else { Some(state) }
    }

    /// The state, with this queue in it.
    fn at(&self, queue: &QueueName) -> Result<MutexGuard<'_, State>, BrokerError> {
        let mut state = self.state().ok_or(BrokerError::Closed)?;
        if !state.queues.contains_key(queue) {
            let known = state.queues.keys().cloned().collect();
            return Err(BrokerError::UnknownQueue { queue: queue.clone(), known });
        }
        state.sweep();
        Ok(state)
    }
}

fn publish(state: &mut State, mut message: Outgoing) -> Result<(), PublishError> {
    if !state.is(Fault::SkipsChecks) {
        limits::check(&message)?;
    }
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let size = message.body.len() + headers;
    if size > MAX_MESSAGE && !state.is(Fault::TakesTooLarge) {
        let id = message.id.to_string();
        return Err(PublishError::TooLarge { id, size: size as u64, limit: MAX_MESSAGE as u64 });
    }
    if let crawlway_broker::Target::Queue(name) = &message.to
        && state.is(Fault::CreatesUnknownQueues)
        && !state.queues.contains_key(name)
    {
        state.queues.insert(name.clone(), Queue::new(QueueSpec::new(name.clone())));
    }
    let names = state.route(&message)?;
    for name in &names {
        let queue = &state.queues[name];
        if queue.spec.groups && message.group.is_none() && !state.is(Fault::TakesMissingGroup) {
            let problem = format!("queue `{name}` has groups, and the message has none");
            return Err(PublishError::Invalid { id: message.id.to_string(), problem });
        }
        if queue.paused && state.is(Fault::PauseStopsPublish) {
            return Err(PublishError::Unavailable { detail: "the queue is paused".into() });
        }
        if !state.is(Fault::CopiesBeforeFull) {
            state.room(name)?;
        }
    }
    spoil(state, &mut message);
    for name in names {
        state.room(&name)?;
        let known = state.queues[&name].items.iter().any(|item| item.message.id == message.id);
        if known && state.is(Fault::DedupsIds) {
            continue;
        }
        let message = message.clone();
        let held_back = message.not_before.filter(|_| !state.is(Fault::IgnoresNotBefore));
        let (now, until) = (state.now, held_back.unwrap_or(state.now));
        let Outgoing { id, key, group, headers, body, .. } = message;
        state.add(&name, Message { id, key, group, headers, body, published_at: now }, until, 0);
    }
    Ok(())
}

/// What a careless backend does to a message on its way.
fn spoil(state: &State, message: &mut Outgoing) {
    match state.fault {
        Fault::DropsHeader => drop(message.headers.pop_last()),
        Fault::LowersHeaderNames => {
            let headers = std::mem::take(&mut message.headers);
            message.headers = headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        }
        Fault::DropsEmptyHeaders => message.headers.retain(|_, value| !value.is_empty()),
        Fault::DropsKey => message.key = None,
        Fault::EmptyKeyIsNone => message.key = message.key.take().filter(|key| !key.is_empty()),
        Fault::LossyBody => message.body = String::from_utf8_lossy(&message.body).into_owned().into(),
        Fault::TruncatesBody => message.body.truncate(1000),
        _ => {}
    }
}

fn fenced(receipt: &Receipt) -> SettleError {
    SettleError::Fenced { queue: receipt.queue.clone() }
}

#[async_trait::async_trait]
impl Broker for Oracle {
    fn guarantees(&self) -> Guarantees {
        Guarantees {
            broker: "oracle",
            support: |_: Aspect| Support::Native,
            late_by: Duration::ZERO,
            depth_lag: Duration::ZERO,
            limit_slack: 0,
            max_message: MAX_MESSAGE as u64,
        }
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        let mut state = self.state().ok_or(BrokerError::Closed)?;
        for spec in queues {
            if !state.is(Fault::TakesInvalidSpec) {
                spec.check()?;
            }
            let fault = state.fault;
            match state.queues.get_mut(&spec.name) {
                Some(known) if fault == Fault::RedeclareEmpties => known.items.clear(),
                Some(known) if known.spec == *spec || fault == Fault::RedeclareIsIgnored => {}
                Some(known) => {
                    let difference = format!("it is {:?}, asked for was {spec:?}", known.spec);
                    return Err(BrokerError::Mismatch { queue: spec.name.clone(), difference });
                }
                None => drop(state.queues.insert(spec.name.clone(), Queue::new(spec.clone()))),
            }
        }
        Ok(())
    }

    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        let state = self.state().ok_or(BrokerError::Closed)?;
        let mut specs: Vec<QueueSpec> = state.queues.values().map(|queue| queue.spec.clone()).collect();
        if state.is(Fault::UnsortedQueues) {
            specs.reverse();
        }
        Ok(specs)
    }

    async fn publish(&self, mut batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let Some(mut state) = self.state() else {
            return batch.iter().map(|_| Err(PublishError::Closed)).collect();
        };
        if state.is(Fault::NamesFoldCase) {
            for message in &mut batch {
                if let crawlway_broker::Target::Queue(name) = &mut message.to
                    && let Some(known) =
                        state.queues.keys().find(|known| known.as_str().eq_ignore_ascii_case(name.as_str()))
                {
                    *name = known.clone();
                }
            }
        }
        if state.is(Fault::LimitPerCall) {
            // The depth is looked at once per call, as a publisher with a cached depth would.
            let full = batch.first().map(|message| state.route(message));
            if let Some(Ok(names)) = full
                && names.iter().all(|name| state.room(name).is_ok())
            {
                for name in names {
                    state.queue(&name).spec.max_length = None;
                }
            }
        }
        let mut outcomes: Vec<_> = batch.into_iter().map(|message| publish(&mut state, message)).collect();
        if state.is(Fault::ShortAnswers) {
            outcomes.retain(Result::is_ok);
        }
        if !state.is(Fault::NoWakeOnPublish) {
            self.shared.bell.notify_waiters();
        }
        outcomes
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let bell = self.shared.bell.notified();
            tokio::pin!(bell);
            bell.as_mut().enable();
            {
                let mut state = self.at(queue)?;
                let taken = state.take(queue, max, self.number);
                if !taken.is_empty() || max == 0 || state.is(Fault::NoWaiting) {
                    return Ok(taken);
                }
            }
            if tokio::time::timeout_at(deadline, bell).await.is_err() {
                return Ok(Vec::new());
            }
        }
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<Settled, SettleError>> {
        let Some(mut state) = self.state() else {
            return verdicts.iter().map(|_| Err(SettleError::Closed)).collect();
        };
        let settle = |(receipt, verdict): (Receipt, Verdict)| {
            let (name, index) = state.held(&receipt).ok_or_else(|| fenced(&receipt))?;
            if state.queues[&name].paused && state.is(Fault::PauseFencesSettle) {
                return Err(fenced(&receipt));
            }
            if state.is(Fault::RefusesDefer) && matches!(verdict, Verdict::Defer { .. }) {
                return Err(SettleError::Unavailable { detail: "no deferrals".into() });
            }
            Ok(state.settle(&name, index, verdict))
        };
        let answers = verdicts.into_iter().map(settle).collect();
        if !state.is(Fault::NoWakeOnSettle) {
            self.shared.bell.notify_waiters();
        }
        answers
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let Some(mut state) = self.state() else {
            return receipts.iter().map(|_| Err(SettleError::Closed)).collect();
        };
        let extend = |receipt: &Receipt| {
            let (now, fault) = (state.now, state.fault);
            let Some((name, index)) = state.held(receipt) else {
                return if fault == Fault::ExtendRevives { Ok(()) } else { Err(fenced(receipt)) };
            };
            if let Place::Held { until, .. } = &mut state.queue(&name).items[index].place {
                match fault {
                    Fault::IgnoresExtend => {}
                    Fault::ExtendOnlyGrows => *until = (*until).max(now + lease),
                    _ => *until = now + lease,
                }
            }
            Ok(())
        };
        receipts.iter().map(extend).collect()
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let state = self.at(queue)?;
        let now = state.now;
        let queue = &state.queues[queue];
        let count = |which: &dyn Fn(&super::state::Item) -> bool| {
            queue.items.iter().filter(|item| which(item)).count() as u64
        };
        let waiting = queue.items.iter().filter(|item| !item.held());
        let oldest = waiting.map(|item| item.message.published_at).min();
        let mut depth = Depth {
            ready: count(&|item| item.ready(now)),
            in_flight: count(&|item| item.held()),
            delayed: count(&|item| !item.held() && !item.ready(now)),
            dead: queue.dead.len() as u64,
            oldest_age: oldest.map(|at| now.since(at)),
            exact: true,
            paused: queue.paused,
        };
        match state.fault {
            Fault::DepthMissesDelayed => depth.delayed = 0,
            Fault::DepthForgetsLostLease => {
                depth.ready = count(&|item| item.ready(now) && item.message.published_at == now)
            }
            Fault::AgeStandsStill => depth.oldest_age = depth.oldest_age.map(|_| Duration::ZERO),
            _ => {}
        }
        Ok(depth)
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let mut state = self.at(queue)?;
        let fault = state.fault;
        let queue = state.queue(queue);
        let before = queue.items.len() as u64;
        queue.items.retain(|item| item.held() && fault != Fault::PurgeTakesInFlight);
        if fault == Fault::PurgeTakesDead {
            queue.dead.clear();
        }
        let count = before - queue.items.len() as u64;
        Ok(if fault == Fault::PurgeMiscounts { before } else { count })
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.at(queue)?.queue(queue).paused = true;
        Ok(())
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.at(queue)?.queue(queue).paused = false;
        self.shared.bell.notify_waiters();
        Ok(())
    }

    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let mut state = self.at(queue)?;
        let fault = state.fault;
        let dead = &mut state.queue(queue).dead;
        let matches = |letter: &&crawlway_broker::DeadLetter| match fault {
            Fault::UntilIsInclusive => {
                filter.matches(letter) || filter.until.is_some_and(|until| until == letter.dead_at)
            }
            Fault::CaseSensitiveFilter => {
                filter.matches(letter)
                    && filter.reason.as_ref().is_none_or(|part| letter.reason.contains(part))
            }
            _ => filter.matches(letter),
        };
        let after = after.filter(|_| fault != Fault::PageRepeats);
        let later = dead.iter().filter(|letter| after.is_none_or(|after| letter.id > *after));
        let mut letters: Vec<_> = match fault {
            Fault::PageBeforeFilter => later.take(limit).filter(matches).cloned().collect(),
            _ => later.filter(matches).take(limit + 1).cloned().collect(),
        };
        let more = letters.len() > limit;
        letters.truncate(limit);
        let next = letters.last().filter(|_| more).map(|letter| letter.id.clone());
        if fault == Fault::NewestDeadFirst {
            letters.reverse();
        }
        if fault == Fault::ReadingTakes {
            dead.retain(|letter| !letters.contains(letter));
        }
        Ok(DeadPage { letters, next })
    }

    async fn replay(&self, queue: &QueueName, filter: &DeadFilter) -> Result<Replayed, BrokerError> {
        let mut state = self.at(queue)?;
        let fault = state.fault;
        let dead = std::mem::take(&mut state.queue(queue).dead);
        let mut replayed = Replayed::default();
        for letter in dead {
            let meant = filter.matches(&letter) || fault == Fault::ReplayIgnoresFilter;
            if !meant || replayed.stopped.is_some() {
                state.queue(queue).dead.push(letter);
                continue;
            }
            if let Err(full) = state.room(queue)
                && fault != Fault::ReplayIgnoresLimit
            {
                replayed.stopped = Some(full);
                state.queue(queue).dead.push(letter);
                continue;
            }
            if fault == Fault::ReplayKeepsLetter {
                state.queue(queue).dead.push(letter.clone());
            }
            let now = state.now;
            let replays = if fault == Fault::ReplayForgetsCount { 0 } else { letter.replays + 1 };
            let mut message = letter.message;
            if fault == Fault::ReplayLosesHeaders {
                message.headers.clear();
            }
            state.add(queue, message, now, replays);
            if fault == Fault::ReplayKeepsAttempts {
                state.keep_attempts(queue, letter.attempts);
            }
            replayed.count += 1;
        }
        self.shared.bell.notify_waiters();
        Ok(replayed)
    }

    async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let mut state = self.at(queue)?;
        let all = state.is(Fault::DropIgnoresFilter);
        let dead = &mut state.queue(queue).dead;
        let before = dead.len();
        dead.retain(|letter| !all && !filter.matches(letter));
        Ok((before - dead.len()) as u64)
    }

    async fn close(&self) -> Result<(), BrokerError> {
        let Some(state) = self.state() else { return Err(BrokerError::Closed) };
        let fault = state.fault;
        drop(state);
        if fault != Fault::CloseIsNotFinal {
            self.closed.store(true, Ordering::SeqCst);
        }
        if fault != Fault::CloseLeavesReceivers {
            self.shared.bell.notify_waiters();
        }
        Ok(())
    }
}
