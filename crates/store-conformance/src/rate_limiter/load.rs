//! Cases: concurrent callers and simulated load, under the checker of limits.

use super::checker::LimitChecker;
use super::fixture::*;
use super::schedule::{Plan, all_kinds, pass_day};

const CALLERS: usize = 40;

/// Reserves concurrently, each ticket on a task of its own.
async fn ask_at_once(
    handles: &[Arc<dyn RateLimiter>],
    group: &Group,
    limits: RateLimits,
    tickets: &[Ticket],
) -> (Vec<Permit>, BTreeMap<Ticket, Timestamp>) {
    let asked: Vec<_> = tickets
        .iter()
        .enumerate()
        .map(|(index, ticket)| {
            let (rate_limiter, group, ticket) =
                (handles[index % handles.len()].clone(), group.clone(), *ticket);
            tokio::spawn(async move { (ticket, rate_limiter.reserve(&group, ticket, &limits).await) })
        })
        .collect();
    let (mut go, mut wait) = (Vec::new(), BTreeMap::new());
    for asked in asked {
        match asked.await {
            Ok((_, Ok(Reservation::Granted(permit)))) => go.push(permit),
            Ok((ticket, Ok(Reservation::NotBefore { at, .. }))) => {
                wait.insert(ticket, at);
            }
            other => panic!("asking must work, the answer was {other:?}"),
        }
    }
    (go, wait)
}

pub(super) async fn racing_callers_keep_to_the_limits(mut t: Fixture<'_>) {
    let handles = [t.store.clone(), t.another_handle().await, t.another_handle().await];
    for limits in [ALONE, limits(3, GAP), limits(7, Duration::ZERO), limits(1, Duration::ZERO)] {
        let g = group("race");
        let mut checker = LimitChecker::default();
        let mut tickets: Vec<Ticket> = (0..CALLERS).map(|_| ticket()).collect();
        let mut rounds = 0;
        while !tickets.is_empty() {
            rounds += 1;
            assert!(rounds < CALLERS * 4, "{} of {CALLERS} still wait after {rounds} rounds", tickets.len());
            let asked = t.now();
            let (go, wait) = ask_at_once(&handles, &g, limits, &tickets).await;
            let now = t.now();
            for permit in &go {
                checker.started(permit, &limits, asked, now);
            }
            let mut slots: Vec<Timestamp> = wait.values().copied().collect();
            slots.sort_unstable();
            if rounds == 1 {
                for pair in slots.windows(2) {
                    assert!(
                        pair[1] >= pair[0] + limits.min_delay,
                        "slots must be {:?} apart: {slots:?}",
                        limits.min_delay
                    );
                }
            }
            for permit in &go {
                checker.ended(permit, t.now());
                t.finish(permit, RequestOutcome::Success).await;
            }
            tickets.retain(|ticket| wait.contains_key(ticket));
            if let Some(first) = slots.first() {
                t.pass_until(*first).await;
            }
        }
        assert_eq!(checker.starts, CALLERS, "every caller goes once");
    }
}

pub(super) async fn any_schedule_keeps_to_the_limits(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { breaker: None, ..RateLimitPolicy::default() }).await;
    let handles = [t.store.clone(), t.another_handle().await];
    // The rules have their own property test; these are about what a store does with them.
    for seed in 0..6 {
        let jitter = Jitter::seeded(seed);
        let plan = Plan { late: 500, ..Plan::quiet(150, all_kinds(&jitter), 60_000, 0..=2000) };
        let day = pass_day(&mut t, &handles, &plan, &jitter).await;
        assert_eq!(day.starts, plan.items, "every item goes once, in the day of seed {seed}");
    }
}

pub(super) async fn a_schedule_with_blocks_and_deaths_keeps_to_the_limits(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy::default()).await;
    let handles = [t.store.clone(), t.another_handle().await];
    for seed in 100..105 {
        let jitter = Jitter::seeded(seed);
        let plan = Plan {
            late: 40_000,
            blocked: 20,
            die: 5,
            vanish: 2,
            ..Plan::quiet(150, all_kinds(&jitter), 600_000, 0..=70_000)
        };
        let day = pass_day(&mut t, &handles, &plan, &jitter).await;
        assert!(day.starts > plan.items / 2, "most items go, in the day of seed {seed}: {day:?}");
    }
}

pub(super) async fn nearly_every_ticket_waits_once(h: Fresh<'_>) {
    let mut t = Fixture::with(h, default_policy()).await;
    let handles = [t.store.clone()];
    for groups in [vec![ALONE], vec![limits(4, Duration::from_millis(200))]] {
        let jitter = Jitter::seeded(7);
        let plan = Plan::quiet(300, groups, 120_000, 200..=600);
        let day = pass_day(&mut t, &handles, &plan, &jitter).await;
        let (often, most): (usize, _) =
            (day.waits.iter().filter(|waits| **waits > 1).count(), day.waits.iter().max());
        let all: u32 = day.waits.iter().sum();
        assert!(
            all as usize <= plan.items * 3 / 2 && most < Some(&8),
            "{often} of {} items had to wait more than once, {all} waits in all, {most:?} at most",
            plan.items
        );
    }
}
