//! Queue of the calls of one process: calls of one group are combined, and groups share round trips.

use super::{
    Basis, Decision, Exchange, Exchanged, GroupStore, MAX_AGE, MAX_ESTIMATE_AGE, MAX_FINISH_TRIES, MAX_TRIES,
    RETRY_DELAY, Shared, known::KnownGroup,
};
use crate::rate_limiter::{
    Group, RateLimiterError, Ticket, WaitReason,
    rules::{Answer, Request},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, atomic::Ordering},
};
use tokio::sync::oneshot;

/// Maximum number of groups of a round trip.
const BATCH_SIZE: usize = 128;

/// Maximum number of calls of one group in a round trip.
const MAX_CALLS: usize = 1000;

/// Maximum number of round trips at a time.
const MAX_BATCHES: usize = 2;

type Reply = Result<Answer, RateLimiterError>;

/// A call about one group.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ticket: Option<Ticket>,
    request: Request,
    reply: oneshot::Sender<Reply>,
}

impl Call {
    pub(super) fn new(ticket: Option<Ticket>, request: Request) -> (Self, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (Self { ticket, request, reply }, answer)
    }

    pub(super) fn is_for_permit(&self) -> bool {
        matches!(self.request, Request::Reserve { .. })
    }

    /// The request with the place of its ticket.
    pub(super) fn request(&self, place: Option<u64>) -> Request {
        match self.request {
            Request::Reserve { limits, .. } => Request::Reserve { place, limits },
            Request::Cancel { .. } => Request::Cancel { place },
            request => request,
        }
    }

    fn answer(self, reply: Reply) {
        // A caller that has gone away needs no answer.
        drop(self.reply.send(reply));
    }
}

/// Calls that wait for a round trip.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Calls of each group; a group without calls is in a round trip.
    calls: HashMap<Group, Vec<Call>>,
    /// Groups with calls that are in no round trip.
    ready: Vec<Group>,
    batches: usize,
}

/// Calls of one group in a round trip.
#[derive(Debug)]
struct Work {
    group: Group,
    calls: Vec<Call>,
    /// Tickets of the calls, each once.
    tickets: Vec<Ticket>,
    known: KnownGroup,
    /// Version that the calls were decided on last.
    expected: u64,
    /// Number of swaps so far.
    swaps: u32,
    /// Basis of decisions, if the group was loaded for these calls.
    loaded: Option<Basis>,
}

impl Work {
    fn new(calls: Vec<Call>, known: KnownGroup, group: Group) -> Self {
        let mut tickets: Vec<Ticket> = calls.iter().filter_map(|call| call.ticket).collect();
        tickets.sort_unstable();
        tickets.dedup();
        Self { group, calls, tickets, expected: known.version, known, swaps: 0, loaded: None }
    }

    /// Decides the calls, unless the group has to be loaded first.
    async fn decide<S: GroupStore>(&mut self, shared: &Shared<S>) -> Result<Decision, RateLimiterError> {
        let basis = self.loaded.or_else(|| {
            let (now, since) = shared.known.lock().clock().filter(|_| !self.known.is_contended)?;
            // The clock of a test jumps.
            let now = shared.store.test_now().unwrap_or(now);
            (since <= now).then_some(Basis { now, since, max_age: MAX_ESTIMATE_AGE })
        });
        let Some(basis) = basis else { return Ok(Decision { answers: vec![], swap: None }) };
        self.expected = self.known.version;
        shared.decide(&self.calls, &self.tickets, &mut self.known, basis).await
    }

    /// Tells callers for a permit to ask again.
    fn give_up<S>(&mut self, shared: &Shared<S>) {
        let Some(Basis { now, .. }) = self.loaded else { return };
        for call in self.calls.extract_if(.., |call| call.is_for_permit()) {
            let at = now + MAX_AGE + shared.jitter.up_to(MAX_AGE);
            call.answer(Ok(Answer::Wait { place: None, at, reason: WaitReason::Overloaded }));
        }
    }
}

/// Adds a call. It runs on a task of its own, since a caller that goes away must not take the others' calls with it.
pub(super) fn push<S: GroupStore>(shared: &Arc<Shared<S>>, group: &Group, call: Call) {
    let mut queue = shared.queue.lock();
    match queue.calls.entry(group.clone()) {
        Entry::Occupied(entry) => entry.into_mut().push(call),
        Entry::Vacant(entry) => {
            entry.insert(vec![call]);
            queue.ready.push(group.clone());
        }
    }
    start(shared, &mut queue);
}

fn start<S: GroupStore>(shared: &Arc<Shared<S>>, queue: &mut Queue) {
    if queue.batches < MAX_BATCHES && !queue.ready.is_empty() {
        queue.batches += 1;
        tokio::spawn(run(shared.clone()));
    }
}

/// Runs batches until no group is ready.
async fn run<S: GroupStore>(shared: Arc<Shared<S>>) {
    loop {
        let batch: Vec<Work> = {
            let mut queue = shared.queue.lock();
            let size = queue.ready.len().min(BATCH_SIZE);
            let groups: Vec<Group> = queue.ready.drain(..size).collect();
            if groups.is_empty() {
                queue.batches -= 1;
                return;
            }
            let mut known = shared.known.lock();
            let work = |group: Group| {
                let waiting = queue.calls.entry(group.clone()).or_default();
                let size = waiting.len().min(MAX_CALLS);
                Work::new(waiting.drain(..size).collect(), known.take(&group), group)
            };
            groups.into_iter().map(work).collect()
        };
        for work in attempt_twice(&shared, batch).await {
            tokio::spawn(retry(shared.clone(), work));
        }
    }
}

/// A swap on the known states, and one on the loaded states of the groups for which it failed. Returns those that have changed again.
async fn attempt_twice<S: GroupStore>(shared: &Arc<Shared<S>>, batch: Vec<Work>) -> Vec<Work> {
    let loaded = attempt(shared, batch).await;
    attempt(shared, loaded).await
}

/// Tries the calls of a group again, while other groups go on.
async fn retry<S: GroupStore>(shared: Arc<Shared<S>>, mut work: Work) {
    for tries in 1..MAX_FINISH_TRIES {
        tokio::time::sleep(shared.jitter.up_to(RETRY_DELAY * tries)).await;
        if work.swaps >= MAX_TRIES {
            work.give_up(&shared);
        }
        if work.calls.is_empty() {
            return finish(&shared, work, &Ok(vec![]));
        }
        // The state is contended and by now out of date.
        work.loaded = None;
        match attempt_twice(&shared, vec![work]).await.pop() {
            Some(again) => work = again,
            None => return,
        }
    }
    let detail = format!("group `{}` is in use by too many processes", work.group);
    finish(&shared, work, &Err(RateLimiterError::Unavailable { detail }));
}

/// One swap or load for each group. Returns those that have been loaded now.
async fn attempt<S: GroupStore>(shared: &Arc<Shared<S>>, batch: Vec<Work>) -> Vec<Work> {
    let mut sent: Vec<(Work, Vec<Answer>)> = Vec::with_capacity(batch.len());
    let mut exchanges: Vec<Exchange> = Vec::with_capacity(batch.len());
    for mut work in batch {
        match work.decide(shared).await {
            Ok(Decision { answers, swap: None }) if work.loaded.is_some() => {
                finish(shared, work, &Ok(answers));
            }
            Ok(Decision { answers, swap }) => {
                let (group, tickets) = (work.group.clone(), work.tickets.clone());
                work.swaps += u32::from(swap.is_some());
                exchanges.push(Exchange { group, tickets, swap });
                sent.push((work, answers));
            }
            Err(error) => finish(shared, work, &Err(error)),
        }
    }
    if sent.is_empty() {
        return vec![];
    }
    let swaps = exchanges.iter().filter(|exchange| exchange.swap.is_some()).count();
    shared.swaps.fetch_add(swaps as u64, Ordering::Relaxed);
    let mut results = match shared.store.exchange(&exchanges).await {
        Ok(results) if results.len() == sent.len() => results.into_iter(),
        failed => {
            let error = failed.err().unwrap_or_else(unanswered);
            for (work, _) in sent {
                finish(shared, work, &Err(error.clone()));
            }
            return vec![];
        }
    };
    let mut again = Vec::new();
    for ((mut work, answers), result) in sent.into_iter().zip(&mut results) {
        match result {
            Exchanged::Swapped { now } => {
                let mut known = shared.known.lock();
                known.swapped(now);
                known.put(work.group.clone(), std::mem::take(&mut work.known));
                drop(known);
                finish(shared, work, &Ok(answers));
            }
            Exchanged::Loaded(loaded) => {
                shared.known.lock().loaded(&loaded);
                work.loaded = Some(Basis { now: loaded.now, since: loaded.since, max_age: MAX_AGE });
                work.known.version = work.expected;
                work.known.update(loaded, &work.tickets, &shared.jitter);
                again.push(work);
            }
        }
    }
    again
}

/// Answers the calls of a group, which may have a round trip again.
fn finish<S: GroupStore>(
    shared: &Arc<Shared<S>>,
    work: Work,
    answers: &Result<Vec<Answer>, RateLimiterError>,
) {
    for (index, call) in work.calls.into_iter().enumerate() {
        let answer = answers.as_ref().map_err(Clone::clone);
        call.answer(answer.and_then(|answers| answers.get(index).copied().ok_or_else(unanswered)));
    }
    let mut queue = shared.queue.lock();
    if queue.calls.get(&work.group).is_some_and(Vec::is_empty) {
        queue.calls.remove(&work.group);
    } else {
        queue.ready.push(work.group);
        start(shared, &mut queue);
    }
}

pub(super) fn shut_down() -> RateLimiterError {
    RateLimiterError::Unavailable { detail: "the process is shutting down".to_owned() }
}

fn unanswered() -> RateLimiterError {
    RateLimiterError::Unavailable { detail: "unexpected answer of the store".to_owned() }
}
