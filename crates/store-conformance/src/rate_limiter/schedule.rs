//! Simulated load on a rate limiter: items arrive, wait, run, and some are lost; reproducible by a seed.

use super::checker::LimitChecker;
use super::fixture::*;
use std::{cmp::Reverse, collections::BinaryHeap, ops::RangeInclusive};

/// Parameters of a simulation. Times are in milliseconds, probabilities in percent.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) items: usize,
    pub(super) groups: Vec<RateLimits>,
    /// Time within which all items arrive.
    pub(super) arrivals: u64,
    pub(super) takes: RangeInclusive<u64>,
    /// Maximum lateness of items at their slots.
    pub(super) late: u64,
    pub(super) blocked: u64,
    /// Items that are lost while they run.
    pub(super) die: u64,
    /// Items that are lost while they wait.
    pub(super) vanish: u64,
}

impl Plan {
    /// A simulation without failures.
    pub(super) fn quiet(
        items: usize,
        groups: Vec<RateLimits>,
        arrivals: u64,
        takes: RangeInclusive<u64>,
    ) -> Self {
        Self { items, groups, arrivals, takes, late: 0, blocked: 0, die: 0, vanish: 0 }
    }
}

/// Groups with different limits.
pub(super) fn all_kinds(jitter: &Jitter) -> Vec<RateLimits> {
    let gap = |most: u64| Duration::from_millis(jitter.next_u64() % (most + 1));
    vec![limits(1, gap(3000)), limits(1, Duration::ZERO), limits(2, gap(1000)), limits(5, gap(300))]
}

/// Result of a simulation.
#[derive(Debug)]
pub(super) struct Day {
    pub(super) starts: usize,
    /// Number of waits of each item that ran.
    pub(super) waits: Vec<u32>,
}

struct Item {
    group: usize,
    ticket: Ticket,
    waits: u32,
    permit: Option<Permit>,
}

/// Runs a simulation under the checker. Every item that is not lost runs in the end.
pub(super) async fn pass_day(
    t: &mut Fixture<'_>,
    handles: &[Arc<dyn RateLimiter>],
    plan: &Plan,
    jitter: &Jitter,
) -> Day {
    let groups: Vec<Group> = plan.groups.iter().map(|_| group("day")).collect();
    let chance = |percent: u64| jitter.next_u64() % 100 < percent;
    let between = |range: &RangeInclusive<u64>| {
        Duration::from_millis(range.start() + jitter.next_u64() % (range.end() - range.start() + 1))
    };
    let mut items = Vec::new();
    let mut due: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    for index in 0..plan.items {
        items.push(Item { group: index % groups.len(), ticket: ticket(), waits: 0, permit: None });
        due.push(Reverse((t.now() + between(&(0..=plan.arrivals)), index)));
    }
    let mut checker = LimitChecker::default();
    let mut waits = Vec::new();
    let mut steps = 0;
    while let Some(Reverse((time, index))) = due.pop() {
        steps += 1;
        assert!(steps < plan.items * 200, "{} of {} went, then it went on for ever", waits.len(), plan.items);
        t.pass_until(time).await;
        let rate_limiter = &handles[steps % handles.len()];
        let item = &mut items[index];
        if let Some(permit) = item.permit.take() {
            let outcome = if chance(plan.blocked) {
                RequestOutcome::Blocked { retry_after: None }
            } else {
                RequestOutcome::Success
            };
            checker.ended(&permit, t.now());
            let _fenced_if_it_took_too_long = rate_limiter.finish(&permit, outcome).await;
            continue;
        }
        let limits = &plan.groups[item.group];
        let asked = t.now();
        match rate_limiter.reserve(&groups[item.group], item.ticket, limits).await {
            Ok(Reservation::Granted(permit)) => {
                checker.started(&permit, limits, asked, t.now());
                waits.push(item.waits);
                if !chance(plan.die) {
                    item.permit = Some(permit);
                    due.push(Reverse((t.now() + between(&plan.takes), index)));
                }
            }
            Ok(Reservation::NotBefore { at, .. }) => {
                item.waits += 1;
                if !chance(plan.vanish) {
                    due.push(Reverse((at + between(&(0..=plan.late)), index)));
                }
            }
            Err(error) => panic!("asking must work, the answer was: {error}"),
        }
    }
    Day { starts: checker.starts, waits }
}
