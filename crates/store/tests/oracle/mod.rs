//! The test oracle: the gate as simply as it can be said, with a clock that is moved by hand and faults that can be
//! switched on.

mod naive;

use crawlway_store::{
    Gate, GateError, Group, Limits, ManualClock, Outcome, Permit, Policy, Ticket, Timestamp, Turn, Why,
    conformance::gate::Harness, gate::Jitter,
};
use naive::Naive;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

crawlway_conformance::faults! {
    OneMoreInFlight,
    AtMostAThousandInFlight,
    GapFromStart,
    GapFromEnd,
    LeastGapOfAMoment,
    KeepsFirstLimits,
    TakesAnyLimits,
    SameSlotForAll,
    ForgetsTickets,
    GuessesNothing,
    NewcomersFirst,
    NeverEarly,
    MovesNoFollowers,
    HasThemPoll,
    SlotsNeverLapse,
    SlotsLapseAtOnce,
    LeavingDoesNothing,
    EndlessLine,
    FullLineIsNotSpread,
    LeaseNeverEnds,
    LeaseEndsEarly,
    StatesNoLease,
    LostLeaseHasNoEnd,
    IgnoresExtend,
    ExtendRevives,
    TakesAnyFinish,
    TakesLateFinish,
    IgnoresPermitGroup,
    BackOffNeverDoubles,
    BackOffUncapped,
    NoJitter,
    SuccessResetsNothing,
    NeutralResets,
    FailedIsNeutral,
    IgnoresRetryAfter,
    RetryAfterUncapped,
    RetryAfterReplaces,
    BurstCountsEach,
    OldSuccessResets,
    LineStaysInBackOff,
    BreakerOneLate,
    BreakerNeverOpens,
    BreakerAlways,
    ManyProbes,
    ProbeNeverCloses,
    SameCoolDown,
    ProbeIsForEver,
    OneGroupForAll,
    FoldsCase,
    HandlesApart,
    NeverForgets,
    ForgetsGap,
    ForgetsTrouble,
    ForgetsInUse,
    EvictsAnyone,
    ClockBackIsIgnored,
}

pub(crate) struct World {
    groups: HashMap<Group, Naive>,
    last_id: u64,
}

/// The gate in memory.
#[derive(Clone)]
pub(crate) struct Oracle {
    world: Arc<Mutex<World>>,
    clock: Arc<ManualClock>,
    jitter: Arc<Jitter>,
    policy: Policy,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(clock: Arc<ManualClock>, policy: Policy, fault: Fault) -> Self {
        let world = Arc::new(Mutex::new(World { groups: HashMap::new(), last_id: 0 }));
        Self { world, clock, jitter: Arc::new(Jitter::seeded(1)), policy, fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic under the lock")
    }

    fn key(&self, group: &Group) -> Group {
        match self.fault {
            Fault::OneGroupForAll => Group::new("all").expect("an allowed name"),
            Fault::FoldsCase => Group::new(&group.as_str().to_lowercase()).expect("an allowed name"),
            _ => group.clone(),
        }
    }

    fn forget(&self, world: &mut World, now: Timestamp) {
        if !self.has(Fault::NeverForgets) {
            world.groups.retain(|_, naive| !naive.is_spent(now, &self.policy, self.fault));
        }
    }

    fn fenced<T>(permit: &Permit) -> Result<T, GateError> {
        Err(GateError::Fenced { group: permit.group.clone() })
    }
}

#[async_trait::async_trait]
impl Gate for Oracle {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        if !self.has(Fault::TakesAnyLimits) {
            limits.check(group)?;
        }
        let limits =
            Limits { in_flight: limits.in_flight.max(1), gap: limits.gap.min(Duration::from_secs(86_400)) };
        let (key, now) = (self.key(group), self.clock.now());
        let mut world = self.world();
        if !world.groups.contains_key(&key) && world.groups.len() >= self.policy.most_groups {
            self.forget(&mut world, now);
            if self.has(Fault::EvictsAnyone) {
                world.groups.clear();
            }
            if world.groups.len() >= self.policy.most_groups {
                return Ok(Turn::NotBefore { at: now + Duration::from_secs(10), why: Why::Crowded });
            }
        }
        world.last_id += 1;
        let id = world.last_id;
        let naive = world.groups.entry(key).or_insert_with(|| Naive::new(now));
        Ok(match naive.reserve(ticket, limits, id, now, &self.policy, &self.jitter, self.fault) {
            Ok(until) => Turn::Go(Permit { group: group.clone(), id, until }),
            Err((at, why)) => Turn::NotBefore { at, why },
        })
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        if let Some(naive) = self.world().groups.get_mut(&self.key(group))
            && !self.has(Fault::LeavingDoesNothing)
        {
            naive.leave(ticket);
        }
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        let now = self.clock.now();
        let mut world = self.world();
        let mut finish =
            |naive: &mut Naive| naive.finish(permit.id, outcome, now, &self.policy, &self.jitter, self.fault);
        let held = match self.fault {
            Fault::IgnoresPermitGroup => world.groups.values_mut().any(finish),
            _ => world.groups.get_mut(&self.key(&permit.group)).is_some_and(&mut finish),
        };
        if held { Ok(()) } else { Self::fenced(permit) }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        let now = self.clock.now();
        let mut world = self.world();
        let mut extended = |permit: &Permit| {
            let naive = world.groups.get_mut(&self.key(&permit.group));
            let until = naive.and_then(|naive| naive.extend(permit.id, now, &self.policy, self.fault));
            until.map_or_else(|| Self::fenced(permit), Ok)
        };
        permits.iter().map(&mut extended).collect()
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        let mut world = self.world();
        self.forget(&mut world, self.clock.now());
        Ok(world.groups.len() as u64)
    }
}

pub(crate) struct OracleHarness {
    clock: Arc<ManualClock>,
    oracle: Option<Oracle>,
    fault: Fault,
}

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { clock: ManualClock::at(Timestamp::from_millis(1_700_000_000_000)), oracle: None, fault }
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        let oracle = Oracle::new(self.clock.clone(), policy, self.fault);
        self.oracle = Some(oracle.clone());
        Arc::new(oracle)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        let first = self.oracle.clone()?;
        if self.fault == Fault::HandlesApart {
            return Some(Arc::new(Oracle::new(self.clock.clone(), first.policy, self.fault)));
        }
        Some(Arc::new(first))
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
    }

    async fn set_back(&mut self, by: Duration) -> bool {
        self.clock.set(self.clock.now() - by);
        true
    }

    fn many_groups(&self) -> usize {
        2000
    }
}
