//! Cases: exponential back-off of a group after failures.

use super::fixture::*;

/// Runs a request with this outcome, and returns the back-off.
async fn pause_after(t: &Fixture<'_>, g: &Group, outcome: RequestOutcome) -> (Duration, Timestamp) {
    let permit = t.goes(g, &ALONE, "nothing keeps it").await;
    let before = t.now();
    t.finish(&permit, outcome).await;
    let (at, why) = t.peek(g, "the group has just blocked us").await;
    assert_eq!(why, WaitReason::Backoff, "the reason");
    (at.since(before), at)
}

/// Expects the back-off after this many failures in a row, within its jitter.
fn is_pause(t: &Fixture<'_>, pause: Duration, blocks: u32) {
    let BackoffPolicy { first, max: most, .. } = t.store.policy().backoff;
    let base = first.saturating_mul(2u32.saturating_pow(blocks - 1)).min(most);
    let (least, most) = (base * 4 / 5, (base * 6 / 5).min(most) + t.slack());
    assert!(
        pause >= least && pause <= most,
        "after block {blocks} in a row {least:?} to {most:?}, not {pause:?}"
    );
}

pub(super) async fn it_doubles_within_its_jitter_up_to_its_cap(mut t: Fixture<'_>) {
    for outcome in [BLOCKED, RequestOutcome::Failed] {
        let g = group("doubles");
        for blocks in 1..=10 {
            let (pause, at) = pause_after(&t, &g, outcome).await;
            is_pause(&t, pause, blocks);
            t.pass_until(at).await;
        }
    }
}

pub(super) async fn jitter_differs(t: Fixture<'_>) {
    let mut pauses = HashSet::new();
    for _ in 0..20 {
        let (pause, _) = pause_after(&t, &group("jitter"), BLOCKED).await;
        is_pause(&t, pause, 1);
        pauses.insert(pause);
    }
    assert!(pauses.len() > 5, "twenty groups blocked at once must not come back at once: {pauses:?}");
}

pub(super) async fn a_success_resets_it(mut t: Fixture<'_>) {
    let g = group("reset");
    for blocks in 1..=4 {
        let (pause, at) = pause_after(&t, &g, BLOCKED).await;
        is_pause(&t, pause, blocks);
        t.pass_until(at).await;
    }
    let end = t.now();
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let next = ticket();
    let at = t.waits_until(&g, next, &ALONE, end + GAP, WaitReason::MinDelay).await;
    t.pass_until(at).await;
    let permit = t.goes_with(&g, next, &ALONE, "the gap is all there is to wait for").await;
    t.finish(&permit, RequestOutcome::Success).await;
    t.pass(GAP + t.slack()).await;
    let (pause, _) = pause_after(&t, &g, BLOCKED).await;
    is_pause(&t, pause, 1);
}

pub(super) async fn a_neutral_outcome_changes_nothing(mut t: Fixture<'_>) {
    let g = group("neutral");
    let end = t.now();
    t.sends(&g, &ALONE, RequestOutcome::Neutral).await;
    let next = ticket();
    let at = t.waits_until(&g, next, &ALONE, end + GAP, WaitReason::MinDelay).await;
    t.pass_until(at).await;
    assert_eq!(t.store.cancel(&g, next).await, Ok(()), "leaving");
    let (pause, at) = pause_after(&t, &g, BLOCKED).await;
    is_pause(&t, pause, 1);
    t.pass_until(at).await;
    t.sends(&g, &ALONE, RequestOutcome::Neutral).await;
    t.pass(GAP + t.slack()).await;
    let (pause, _) = pause_after(&t, &g, BLOCKED).await;
    is_pause(&t, pause, 2);
}

fn asks_for(seconds: u64) -> RequestOutcome {
    RequestOutcome::Blocked { retry_after: Some(Duration::from_secs(seconds)) }
}

pub(super) async fn retry_after_is_respected_up_to_its_cap(h: Fresh<'_>) {
    let t =
        Fixture::with(h, RateLimitPolicy { max_retry_after: Duration::from_secs(1800), ..default_policy() })
            .await;
    for (asked, given) in [(120, 120), (1800, 1800), (1801, 1800), (u64::MAX, 1800)] {
        let (pause, _) = pause_after(&t, &group("asked"), asks_for(asked)).await;
        let given = Duration::from_secs(given);
        assert!(
            pause >= given && pause <= given + t.slack(),
            "asked for {asked} s, {given:?} is to be given, not {pause:?}"
        );
    }
}

pub(super) async fn the_later_of_both_counts(mut t: Fixture<'_>) {
    let g = group("later");
    for blocks in 1..=3 {
        let (pause, at) = pause_after(&t, &g, asks_for(1)).await;
        is_pause(&t, pause, blocks);
        t.pass_until(at).await;
    }
}

pub(super) async fn the_blocks_of_one_burst_count_once(mut t: Fixture<'_>) {
    let g = group("burst");
    let many = limits(8, Duration::ZERO);
    let mut burst = Vec::new();
    for _ in 0..8 {
        burst.push(t.goes(&g, &many, "eight may be in flight").await);
    }
    t.pass(GAP).await;
    let before = t.now();
    for permit in &burst[..7] {
        t.finish(permit, BLOCKED).await;
    }
    let next = ticket();
    let (at, why) = t.waits_with(&g, next, &many, "the group has just blocked us").await;
    assert_eq!(why, WaitReason::Backoff, "the reason");
    is_pause(&t, at.since(before), 1);
    // The `Retry-After` of the last of the burst counts all the same.
    let before = t.now();
    t.finish(&burst[7], asks_for(60)).await;
    let (at, _) = t.waits_with(&g, next, &many, "the group asks for a minute").await;
    t.about(at, before + Duration::from_secs(60), "the time that the group asks for");
    t.pass_until(at).await;
    let permit = t.goes_with(&g, next, &many, "the minute is over").await;
    let before = t.now();
    t.finish(&permit, BLOCKED).await;
    let (at, _) = t.waits(&g, &many, "the group has blocked us again").await;
    is_pause(&t, at.since(before), 2);
}

pub(super) async fn a_success_from_before_the_block_says_nothing(mut t: Fixture<'_>) {
    let g = group("stale");
    let two = limits(2, Duration::ZERO);
    let slow = t.goes(&g, &two, "two may be in flight").await;
    let quick = t.goes(&g, &two, "two may be in flight").await;
    t.pass(GAP).await;
    t.finish(&quick, BLOCKED).await;
    let next = ticket();
    let (at, _) = t.waits_with(&g, next, &two, "the group has just blocked us").await;
    t.finish(&slow, RequestOutcome::Success).await;
    let (again, why) = t.waits_with(&g, next, &two, "what started before the block says nothing").await;
    assert_eq!((again, why), (at, WaitReason::Backoff), "the back-off stays as it was");
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
