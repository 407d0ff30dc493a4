//! Queue of the calls of one process: calls of one group are combined, and groups share round trips.

use super::{
    GroupStore, Load, Loaded, MAX_AGE, MAX_FINISH_TRIES, MAX_TRIES, RETRY_DELAY, Shared, Swap,
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
            let work = |group: Group| {
                let waiting = queue.calls.entry(group.clone()).or_default();
                let size = waiting.len().min(MAX_CALLS);
                Work { group, calls: waiting.drain(..size).collect() }
            };
            groups.into_iter().map(work).collect()
        };
        for work in attempt(&shared, batch).await {
            tokio::spawn(retry(shared.clone(), work));
        }
    }
}

/// Tries the calls of a group again, while other groups go on.
async fn retry<S: GroupStore>(shared: Arc<Shared<S>>, mut work: Work) {
    for tries in 1..MAX_FINISH_TRIES {
        tokio::time::sleep(shared.jitter.up_to(RETRY_DELAY * tries)).await;
        if tries == MAX_TRIES {
            let (permits, others) = work.calls.into_iter().partition(Call::is_for_permit);
            work.calls = others;
            give_up(&shared, &work.group, permits).await;
        }
        match attempt(&shared, vec![work]).await.pop() {
            Some(again) => work = again,
            None => return,
        }
    }
    let detail = format!("group `{}` is in use by too many processes", work.group);
    finish(&shared, work, &Err(RateLimiterError::Unavailable { detail }));
}

/// Tells callers for a permit to ask again.
async fn give_up<S: GroupStore>(shared: &Arc<Shared<S>>, group: &Group, calls: Vec<Call>) {
    if calls.is_empty() {
        return;
    }
    let load = Load { group: group.clone(), tickets: vec![] };
    let loaded = shared.store.load(&[load]).await.map(|mut loaded| loaded.pop());
    for call in calls {
        call.answer(match &loaded {
            Ok(Some(Loaded { now, .. })) => {
                let at = *now + MAX_AGE + shared.jitter.up_to(MAX_AGE);
                Ok(Answer::Wait { place: None, at, reason: WaitReason::Overloaded })
            }
            Ok(None) => Err(unanswered()),
            Err(error) => Err(error.clone()),
        });
    }
}

/// One load and one swap for each group. Returns those whose state was changed meanwhile.
async fn attempt<S: GroupStore>(shared: &Arc<Shared<S>>, batch: Vec<Work>) -> Vec<Work> {
    let tickets = |work: &Work| work.calls.iter().filter_map(|call| call.ticket).collect();
    let loads: Vec<Load> =
        batch.iter().map(|work| Load { group: work.group.clone(), tickets: tickets(work) }).collect();
    let loaded = match shared.store.load(&loads).await {
        Ok(loaded) if loaded.len() == batch.len() => loaded,
        failed => {
            let error = failed.err().unwrap_or_else(unanswered);
            for work in batch {
                finish(shared, work, &Err(error.clone()));
            }
            return vec![];
        }
    };
    let mut decided: Vec<(Work, Vec<Answer>)> = Vec::new();
    let mut swaps: Vec<Swap> = Vec::new();
    for (work, mut loaded) in batch.into_iter().zip(loaded) {
        let mut places = std::mem::take(&mut loaded.places).into_iter();
        loaded.places =
            work.calls.iter().map(|call| call.ticket.and_then(|_| places.next().flatten())).collect();
        match shared.decide(&work.group, &work.calls, loaded).await {
            Ok((answers, None)) => finish(shared, work, &Ok(answers)),
            Ok((answers, Some(swap))) => {
                swaps.push(swap);
                decided.push((work, answers));
            }
            Err(error) => finish(shared, work, &Err(error)),
        }
    }
    if swaps.is_empty() {
        return vec![];
    }
    shared.swaps.fetch_add(swaps.len() as u64, Ordering::Relaxed);
    let swapped = shared.store.swap(&swaps).await;
    let mut again = Vec::new();
    for (index, (work, answers)) in decided.into_iter().enumerate() {
        match swapped.as_ref().map(|swapped| swapped.get(index)) {
            Ok(Some(true)) => finish(shared, work, &Ok(answers)),
            Ok(Some(false)) => again.push(work),
            Ok(None) => finish(shared, work, &Err(unanswered())),
            Err(error) => finish(shared, work, &Err(error.clone())),
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
