//! Cases: exponential back-off of a group after failures.

use super::fixture::*;

pub(super) async fn jitter_differs(t: Fixture<'_>) {
    let mut delays = HashSet::new();
    for _ in 0..20 {
        let g = group("jitter");
        let permit = t.goes(&g, &ALONE, "the group is free").await;
        let before = t.now();
        t.finish(&permit, BLOCKED).await;
        let (at, why) = t.waits(&g, &ALONE, "the group has just blocked us").await;
        assert_eq!(why, WaitReason::Backoff, "the reason");
        t.check_backoff(at.since(before), 1, "the first block");
        delays.insert(at.since(before));
    }
    assert!(delays.len() > 5, "twenty groups blocked at once must not come back at once: {delays:?}");
}

pub(super) async fn waiting_tickets_move_behind_the_back_off(mut t: Fixture<'_>) {
    let g = group("behind");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let mut line = Vec::new();
    for _ in 0..6 {
        let ticket = ticket();
        let (at, _) = t.waits_with(&g, ticket, &ALONE, "the gap has not passed").await;
        line.push((ticket, at));
    }
    t.pass_until(line[0].1).await;
    let first = t.goes_with(&g, line[0].0, &ALONE, "its slot has come").await;
    let before = t.now();
    t.finish(&first, BLOCKED).await;
    let (newcomer, _) = t.waits(&g, &ALONE, "the group is left alone").await;
    let behind = before + Duration::from_secs(4) + GAP * 5;
    assert!(
        newcomer >= behind,
        "five tickets are before the new one, which gets {newcomer:?}, not {behind:?}"
    );
    let mut last = None;
    for (ticket, at) in &mut line[1..] {
        t.pass_until(*at).await;
        let now = t.now();
        if now < before + Duration::from_secs(4) {
            let (moved, why) = t.waits_with(&g, *ticket, &ALONE, "the group is left alone").await;
            assert_eq!(why, WaitReason::Backoff, "the reason");
            *at = moved;
        }
    }
    // In the order of the queue, which a failure does not change.
    for (ticket, _) in &line[1..] {
        let (at, _) = match t.ask(&g, *ticket, &ALONE).await {
            Reservation::NotBefore { at, reason: why } => (at, why),
            Reservation::Granted(permit) => {
                t.finish(&permit, RequestOutcome::Success).await;
                continue;
            }
        };
        if let Some(last) = last {
            assert!(at >= last + GAP, "moved slots are a gap apart still: {at:?} after {last:?}");
        }
        last = Some(at);
    }
}
