//! Rate limiter on a shared store, which keeps the state of each group and swaps it if it is unchanged.
//!
//! ```text
//! reserve, finish, … ─▶ queue by group ─▶ rules::decide on the known state ─▶ swap ─▶ answers
//!                                          ▲                                   │
//!                                          └── fresh state: another process ◀──┘
//!                                              was faster
//! ```
//!
//! The calls of one process for one group are combined: one swap answers all that have come meanwhile. Many groups share a
//! round trip. A process decides on the last state that it knows. The swap fails if that is not the state in the store or if
//! the decision is too old; it returns the fresh state then, and the calls are decided again. A group that other
//! processes change between the calls of this one is loaded first. After [`MAX_TRIES`] a caller for a permit is told to ask
//! again.

mod known;
mod queue;
mod store;

pub use store::{Exchange, Exchanged, GroupStore, Loaded, Swap};

use super::{
    Group, Jitter, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome,
    Reservation, Ticket, WaitReason,
    rules::{Answer, Context, FailureRecord, LastRequests, Request, decide},
};
use crate::Timestamp;
use known::{Known, KnownGroup};
use parking_lot::Mutex;
use queue::{Call, Queue};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum age of a loaded state when it is swapped. Permits are dated by the load.
pub const MAX_AGE: Duration = Duration::from_millis(250);

/// The same for a decision on the known state. Its time is an estimate, somewhat earlier than the store's, so that a request may
/// count as ended that much too early.
const MAX_ESTIMATE_AGE: Duration = Duration::from_millis(20);

/// Maximum number of swaps for a permit.
pub const MAX_TRIES: u32 = 5;

/// Maximum number of swaps for other calls, which must not be lost. Each failed one is the success of another process.
const MAX_FINISH_TRIES: u32 = 50;

/// Maximum delay before another try, times the number of tries.
const RETRY_DELAY: Duration = Duration::from_millis(4);

/// Minimum delay of a caller when the limiter is full.
const FULL_DELAY: Duration = Duration::from_secs(1);

/// Maximum age of the number of groups in the state.
const MAX_COUNT_AGE: Duration = Duration::from_secs(60);

/// Rate limiter on a shared store. Clones are handles on the same state.
#[derive(Debug)]
pub struct SharedRateLimiter<S>(Arc<Shared<S>>);

#[derive(Debug)]
struct Shared<S> {
    store: S,
    policy: RateLimitPolicy,
    jitter: Jitter,
    queue: Mutex<Queue>,
    known: Mutex<Known>,
    swaps: AtomicU64,
    /// Number of groups in the state, and when they were counted.
    groups: Mutex<Option<(u64, Instant)>>,
}

impl<S> Clone for SharedRateLimiter<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: GroupStore> SharedRateLimiter<S> {
    /// Opens the limiter. A new store begins now, so that the minimum delay of all groups passes before the first request.
    pub async fn open(store: S, policy: RateLimitPolicy) -> Result<Self, RateLimiterError> {
        policy.check()?;
        let limiter = Self(Arc::new(Shared {
            store,
            policy,
            jitter: Jitter::random(),
            queue: Mutex::default(),
            known: Mutex::default(),
            swaps: AtomicU64::new(0),
            groups: Mutex::default(),
        }));
        limiter.tracked_groups().await?;
        Ok(limiter)
    }

    /// Number of swaps of this process, failed ones included.
    pub fn swaps(&self) -> u64 {
        self.0.swaps.load(Ordering::Relaxed)
    }

    /// Restores the failures of groups that an earlier version has recorded, so that their back-off goes on.
    pub async fn restore_failures(
        &self,
        failures: Vec<(Group, FailureRecord)>,
    ) -> Result<(), RateLimiterError> {
        let mut answers = Vec::with_capacity(failures.len());
        for (group, record) in failures {
            let (call, answer) = Call::new(None, Request::Restore(record));
            queue::push(&self.0, &group, call);
            answers.push(answer);
        }
        for answer in answers {
            answer.await.map_err(|_| queue::shut_down())??;
        }
        Ok(())
    }

    async fn call(
        &self,
        group: &Group,
        ticket: Option<Ticket>,
        request: Request,
    ) -> Result<Answer, RateLimiterError> {
        let (call, answer) = Call::new(ticket, request);
        queue::push(&self.0, group, call);
        answer.await.map_err(|_| queue::shut_down())?
    }
}

impl<S: GroupStore> Shared<S> {
    /// Whether one more group exceeds the maximum.
    async fn is_full(&self) -> Result<bool, RateLimiterError> {
        let max = self.policy.max_groups as u64;
        {
            let mut groups = self.groups.lock();
            if let Some((count, at)) = &mut *groups
                && *count < max
                && at.elapsed() < MAX_COUNT_AGE
            {
                *count += 1;
                return Ok(false);
            }
        }
        let count = self.store.count().await?;
        *self.groups.lock() = Some((count.saturating_add(1), Instant::now()));
        Ok(count >= max)
    }

    /// Decides the calls of a group on what is known about it. Returns the answers, and the swap that makes them valid.
    async fn decide(
        &self,
        calls: &[Call],
        tickets: &[Ticket],
        known: &mut KnownGroup,
        Basis { now, since, max_age }: Basis,
    ) -> Result<Decision, RateLimiterError> {
        let Self { policy, jitter, .. } = self;
        let context = Context {
            now,
            policy,
            jitter,
            earlier: LastRequests::until(since),
            lost_before: Some(since),
            min_id: 0,
        };
        let expected = known.version;
        let before: Vec<Option<u64>> =
            tickets.iter().map(|ticket| known.places.get(ticket).copied()).collect();
        let mut state = known.state.take();
        if let Some(current) = &mut state {
            current.catch_up(now, policy);
        }
        state.take_if(|state| state.expires_at(policy) <= now);
        let is_new = state.is_none();
        if is_new && calls.iter().any(Call::is_for_permit) && self.is_full().await? {
            let at = now + FULL_DELAY.max(policy.idle_ttl / 4) + jitter.up_to(FULL_DELAY);
            let full = Answer::Wait { place: None, at, reason: WaitReason::Overloaded };
            let answers = calls.iter().map(|call| if call.is_for_permit() { full } else { Answer::Fenced });
            return Ok(Decision { answers: answers.collect(), swap: None });
        }
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            let place = call.ticket.and_then(|ticket| known.places.get(&ticket).copied());
            let (next, answer) = decide(state.take(), call.request(place), &context);
            state = Some(next);
            if let Some(ticket) = call.ticket {
                known.set_place(ticket, answer.place());
            }
            answers.push(answer);
        }
        let is_used =
            !is_new || answers.iter().any(|answer| !matches!(answer, Answer::Fenced | Answer::Cancelled));
        let Some(state) = state else { return Ok(Decision { answers, swap: None }) };
        // 63 bits, which every store has as a number.
        known.version = (jitter.next_u64() >> 1).max(1);
        let after = tickets.iter().map(|ticket| known.places.get(ticket).copied());
        let swap = Swap {
            expected,
            since,
            decided: now,
            max_age,
            version: known.version,
            state: state.encode(),
            // An unknown permit or place is no reason for a state.
            expires: if is_used { state.expires_at(policy) } else { now },
            places: before.into_iter().zip(after).collect(),
        };
        if is_used {
            known.state = Some(state);
        } else {
            *known = KnownGroup::default();
        }
        Ok(Decision { answers, swap: Some(swap) })
    }
}

/// Time of the store on which a decision is based.
#[derive(Debug, Clone, Copy)]
struct Basis {
    now: Timestamp,
    /// Since when the store has its data.
    since: Timestamp,
    /// Maximum age of the decision when its state is swapped.
    max_age: Duration,
}

/// Answers to the calls of a group, and the swap that makes them valid.
struct Decision {
    answers: Vec<Answer>,
    swap: Option<Swap>,
}

#[async_trait::async_trait]
impl<S: GroupStore> RateLimiter for SharedRateLimiter<S> {
    fn policy(&self) -> &RateLimitPolicy {
        &self.0.policy
    }

    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError> {
        limits.check(group)?;
        let request = Request::Reserve { place: None, limits: *limits };
        match self.call(group, Some(ticket), request).await? {
            Answer::Granted { id, until } => {
                Ok(Reservation::Granted(Permit { group: group.clone(), id, until }))
            }
            Answer::Wait { at, reason, .. } => Ok(Reservation::NotBefore { at, reason }),
            answer => Err(unexpected(answer)),
        }
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        self.call(group, Some(ticket), Request::Cancel { place: None }).await.map(drop)
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        match self.call(&permit.group, None, Request::Finish { id: permit.id, outcome }).await? {
            Answer::Finished => Ok(()),
            Answer::Fenced => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
            answer => Err(unexpected(answer)),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        let (calls, answers): (Vec<Call>, Vec<_>) =
            permits.iter().map(|permit| Call::new(None, Request::Extend { id: permit.id })).unzip();
        for (permit, call) in permits.iter().zip(calls) {
            queue::push(&self.0, &permit.group, call);
        }
        let mut extended = Vec::with_capacity(permits.len());
        for (permit, answer) in permits.iter().zip(answers) {
            extended.push(match answer.await {
                Ok(Ok(Answer::Extended(until))) => Ok(until),
                Ok(Ok(Answer::Fenced)) => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
                Ok(Ok(answer)) => Err(unexpected(answer)),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(queue::shut_down()),
            });
        }
        extended
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        let count = self.0.store.count().await?;
        *self.0.groups.lock() = Some((count, Instant::now()));
        Ok(count)
    }
}

fn unexpected(answer: Answer) -> RateLimiterError {
    RateLimiterError::Unavailable { detail: format!("unexpected answer of the rules: {answer:?}") }
}
