//! The oracle behind the contract's trait.

use super::{
    Fault, Shared,
    manner::{LATE, Manner, refusal},
    state::{MAX_MESSAGE, Place, Queue, State},
};
use crawlway_broker::{
    Aspect, Broker, BrokerError, DeadFilter, DeadId, DeadPage, Delivery, Depth, Guarantees, Message,
    Outgoing, PublishError, QueueName, QueueSpec, Rates, Receipt, Replayed, SettleError, Settled, Support,
    Verdict, limits,
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
pub(crate) struct Oracle {
    shared: Arc<Shared>,
    number: u64,
    epoch: u64,
    closed: AtomicBool,
}

impl Oracle {
    pub(crate) fn open(shared: Arc<Shared>) -> Self {
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

    /// The state, with this queue in it, for what not every manner can do.
    fn for_aspect(&self, queue: &QueueName, aspect: Aspect) -> Result<MutexGuard<'_, State>, BrokerError> {
        let state = self.at(queue)?;
        if state.manner.refuses(aspect) && !state.is(Fault::PurgesAnyhow) {
            return Err(refusal(queue.clone(), aspect));
        }
        Ok(state)
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
    let held_back = message.not_before.is_some() && state.manner.refuses(Aspect::NotBefore);
    if held_back && !state.is(Fault::TakesNotBeforeAnyhow) {
        return Err(PublishError::Invalid {
            id: message.id.to_string(),
            problem: "cannot be held back".into(),
        });
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
        let held = queue.items.iter().filter(|item| item.held()).count();
        if state.is(Fault::SlowConsumerBlocksPublish) && held >= queue.spec.prefetch as usize {
            return Err(PublishError::Unavailable { detail: "a consumer is slow".into() });
        }
        if !state.is(Fault::CopiesBeforeFull) && state.manner == Manner::Native {
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
        state.queue(&name).published.push(now);
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
        Fault::KeepsTenHeaders => {
            while message.headers.len() > 10 {
                message.headers.pop_last();
            }
        }
        Fault::CutsLongNames => {
            let headers = std::mem::take(&mut message.headers);
            let cut = |name: String| limits::truncated(&name, 200).to_owned();
            message.headers = headers.into_iter().map(|(name, value)| (cut(name), value)).collect();
        }
        Fault::SetsWhatWasUnset => message.key = Some(message.key.take().unwrap_or_default()),
        Fault::EmptyBodyIsNull if message.body.is_empty() => message.body = "null".into(),
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
        let state = self.shared.state();
        let mut guarantees = state.manner.guarantees(MAX_MESSAGE);
        if state.is(Fault::RefusesTheCore) {
            guarantees.support = |_| Support::Refused { why: "too hard" };
        }
        guarantees
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        let mut state = self.state().ok_or(BrokerError::Closed)?;
        for spec in queues {
            if state.is(Fault::ForgetsManyQueues) && state.queues.len() == 100 {
                break;
            }
            if !state.is(Fault::TakesInvalidSpec) {
                spec.check()?;
            }
            match state.manner.check(spec) {
                Err(BrokerError::Refused { aspect: Aspect::LimitApproximate, .. })
                    if state.is(Fault::TakesATighterSlack) => {}
                Err(_) if state.is(Fault::TakesWhatItRefuses) => {}
                Err(_) if state.is(Fault::RefusesWithoutAName) => {
                    return Err(refusal(spec.name.clone(), Aspect::Confirm));
                }
                answer => answer?,
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
        if state.is(Fault::AnswersEmptyBatches) && outcomes.is_empty() {
            outcomes.push(Err(PublishError::Unavailable { detail: "nothing to publish".into() }));
        }
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
            let (taken, at_once, slowly) = {
                let mut state = self.at(queue)?;
                let taken = state.take(queue, max, self.number);
                let at_once = !taken.is_empty() || max == 0 || state.is(Fault::NoWaiting);
                (taken, at_once, state.is(Fault::TakesForNobody))
            };
            if at_once {
                if slowly {
                    // Taken already: whoever gives up now has left it with nobody.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return Ok(taken);
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

    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError> {
        let mut state = self.state().ok_or(SettleError::Closed)?;
        match state.alone(receipt) {
            true => Ok(()),
            false => Err(SettleError::Fenced { queue: receipt.queue.clone() }),
        }
    }

    async fn depth(&self, name: &QueueName) -> Result<Depth, BrokerError> {
        let mut state = self.for_aspect(name, Aspect::Depth)?;
        let now = state.now;
        let stale = state.manner == Manner::Emulated;
        let queue = &state.queues[name];
        if let Some((at, depth)) = queue.told
            && stale
            && (now.since(at) < LATE || state.is(Fault::DepthNeverCatchesUp))
        {
            return Ok(depth);
        }
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
            rates: Some(queue.rates(now)),
            exact: true,
            paused: queue.paused,
        };
        match state.fault {
            Fault::DepthMissesDelayed => depth.delayed = 0,
            Fault::DepthForgetsLostLease => {
                depth.ready = count(&|item| item.ready(now) && item.message.published_at == now);
            }
            Fault::AgeStandsStill => depth.oldest_age = depth.oldest_age.map(|_| Duration::ZERO),
            Fault::RatesMissSettles => depth.rates = depth.rates.map(|rates| Rates { settled: 0.0, ..rates }),
            Fault::RatesNeverFall => {
                depth.rates = Some(queue.rates(queue.published.last().map_or(now, |at| *at)));
            }
            _ => {}
        }
        state.queue(name).told = Some((now, depth));
        Ok(depth)
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let mut state = self.for_aspect(queue, Aspect::Purge)?;
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
        self.for_aspect(queue, Aspect::Pause)?.queue(queue).paused = true;
        Ok(())
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.for_aspect(queue, Aspect::Pause)?.queue(queue).paused = false;
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
            let tired = fault == Fault::ReplayStopsAtTen && replayed.count == 10;
            if !meant || tired || replayed.stopped.is_some() {
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
        let mut left = if state.is(Fault::DropStopsAtTen) { 10 } else { usize::MAX };
        let dead = &mut state.queue(queue).dead;
        let before = dead.len();
        dead.retain(|letter| {
            let drop = left > 0 && (all || filter.matches(letter));
            left -= usize::from(drop);
            !drop
        });
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
