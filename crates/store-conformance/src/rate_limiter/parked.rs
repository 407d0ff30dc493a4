//! Cases: a caller that waits for a slow group notices that the group has become fast.

use super::checker::LimitChecker;
use super::fixture::*;
use std::{cmp::Reverse, collections::BinaryHeap};

const PARKED: usize = 190;
const SLOW: Duration = Duration::from_secs(3);
const FAST: Duration = Duration::from_millis(10);
/// Time between two later arrivals.
const ARRIVALS: Duration = Duration::from_millis(200);
const MAX_DEFER: Duration = Duration::from_secs(30);

/// Many items wait while answers take 3 s. Then answers take 10 ms, and later items arrive all the time.
pub(super) async fn a_group_that_becomes_fast_serves_all_who_wait(h: Fresh<'_>) {
    let policy = RateLimitPolicy { breaker: None, max_defer: MAX_DEFER, ..RateLimitPolicy::default() };
    let mut t = Fixture::with(h, policy).await;
    let (g, limits) = (group("parked"), RateLimits::one_at_a_time(FAST));
    let change = t.now() + SLOW * 7;
    // Two answers show the new pace. From then on a request and its minimum delay take twice 10 ms.
    let pace = FAST * 2;
    let deadline = change + SLOW * 2 + MAX_DEFER + pace * PARKED as u32 + t.slack();
    let arrivals = (0..170).map(|number| change + ARRIVALS * number);
    let parked = std::iter::repeat_n(t.now(), PARKED);
    let mut due: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    let mut items: Vec<(Ticket, Option<Permit>)> = Vec::new();
    for (index, time) in parked.chain(arrivals).enumerate() {
        items.push((ticket(), None));
        due.push(Reverse((time, index)));
    }
    let mut checker = LimitChecker::default();
    let mut waiting: BTreeMap<usize, Timestamp> = BTreeMap::new();
    while let Some(Reverse((time, index))) = due.pop() {
        t.pass_until(time).await;
        let (ticket, permit) = &mut items[index];
        if let Some(permit) = permit.take() {
            checker.ended(&permit, t.now());
            t.finish(&permit, RequestOutcome::Success).await;
            continue;
        }
        let asked = t.now();
        match t.store.reserve(&g, *ticket, &limits).await {
            Ok(Reservation::Granted(granted)) => {
                let now = t.now();
                checker.started(&granted, &limits, asked, now);
                waiting.remove(&index);
                if index < PARKED {
                    assert!(now <= deadline, "item {index} goes {:?} too late", now.since(deadline));
                } else if t.slack().is_zero() {
                    let delayed = waiting.iter().find(|(_, at)| **at < now + pace);
                    assert_eq!(delayed, None, "at {now:?} a later arrival delays one that waits");
                }
                *permit = Some(granted);
                due.push(Reverse((now + if now < change { SLOW } else { FAST }, index)));
            }
            Ok(Reservation::NotBefore { at, .. }) => {
                let most = asked + limits.min_delay + MAX_DEFER + t.slack();
                assert!(at <= most, "item {index} is sent away for {:?}", at.since(asked));
                if index < PARKED {
                    waiting.insert(index, at);
                }
                due.push(Reverse((at, index)));
            }
            Err(error) => panic!("asking must work, the answer was: {error}"),
        }
    }
    assert_eq!(checker.starts, items.len(), "every item goes once");
}
