//! Cases: a ticket that has to wait gets a slot of its own, and a permit at that time.

use super::fixture::*;

/// Queues new tickets, and returns them with their slots.
async fn line_up(t: &Fixture<'_>, g: &Group, limits: &RateLimits, count: usize) -> Vec<(Ticket, Timestamp)> {
    let mut line = Vec::new();
    for _ in 0..count {
        let ticket = ticket();
        let (at, _) = t.waits_with(g, ticket, limits, "the gap has not passed").await;
        line.push((ticket, at));
    }
    line
}

fn gaps(line: &[(Ticket, Timestamp)]) -> Vec<Duration> {
    line.windows(2)
        .map(|pair| {
            assert!(pair[1].1 >= pair[0].1, "slots are handed out in order: {line:?}");
            pair[1].1.since(pair[0].1)
        })
        .collect()
}

pub(super) async fn items_at_once_get_slots_a_gap_apart(t: Fixture<'_>) {
    for limits in [ALONE, limits(4, GAP)] {
        let g = group("apart");
        let start = t.now();
        t.sends(&g, &limits, RequestOutcome::Success).await;
        let line = line_up(&t, &g, &limits, 9).await;
        t.about(line[0].1, start + GAP, "the first slot");
        for gap in gaps(&line) {
            assert!(
                gap >= GAP && gap <= GAP + t.slack(),
                "slots must be {GAP:?} apart, got {:?}",
                gaps(&line)
            );
        }
    }
}

/// Expects a permit for each ticket at its slot.
async fn each_comes_once(t: &mut Fixture<'_>, g: &Group, limits: &RateLimits, line: &[(Ticket, Timestamp)]) {
    for (ticket, at) in line {
        let permit = t.goes_at(*at, g, *ticket, limits, "its slot has come").await;
        t.finish(&permit, RequestOutcome::Success).await;
    }
}

pub(super) async fn each_goes_at_its_slot(mut t: Fixture<'_>) {
    let g = group("once");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 10).await;
    each_comes_once(&mut t, &g, &ALONE, &line).await;
}

pub(super) async fn each_goes_at_its_slot_with_several_in_flight(mut t: Fixture<'_>) {
    let g = group("several");
    let four = limits(4, GAP);
    t.sends(&g, &four, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &four, 10).await;
    // Each takes three minimum delays, so that four are in flight, which is no reason to wait.
    let mut held: Vec<(Timestamp, Permit)> = Vec::new();
    for (ticket, at) in line {
        let (over, under): (Vec<_>, Vec<_>) = held.into_iter().partition(|(end, _)| *end <= at);
        for (end, permit) in over {
            t.pass_until(end).await;
            t.finish(&permit, RequestOutcome::Success).await;
        }
        held = under;
        let permit = t.goes_at(at, &g, ticket, &four, "its slot has come").await;
        held.push((at + GAP * 3, permit));
    }
}

pub(super) async fn slots_allow_for_how_long_requests_take(mut t: Fixture<'_>) {
    let g = group("allow");
    let takes = Duration::from_millis(700);
    for _ in 0..30 {
        let permit = t.goes(&g, &ALONE, "the group is free").await;
        t.pass(takes).await;
        t.finish(&permit, RequestOutcome::Success).await;
        t.pass(GAP + t.slack()).await;
    }
    let first = t.goes(&g, &ALONE, "the group is free").await;
    let line = line_up(&t, &g, &ALONE, 8).await;
    t.pass(takes).await;
    t.finish(&first, RequestOutcome::Success).await;
    for (ticket, at) in line {
        let because = "requests take as long as they always do";
        let permit = t.goes_at(at, &g, ticket, &ALONE, because).await;
        t.pass(takes).await;
        t.finish(&permit, RequestOutcome::Success).await;
    }
}

pub(super) async fn coming_early_keeps_the_slot(mut t: Fixture<'_>) {
    let g = group("early");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 3).await;
    for (ticket, at) in line.iter().rev() {
        let (again, _) = t.waits_with(&g, *ticket, &ALONE, "its slot has not come").await;
        assert_eq!(again, *at, "asking early changes nothing");
    }
    each_comes_once(&mut t, &g, &ALONE, &line).await;
}

pub(super) async fn asking_again_takes_no_second_slot(t: Fixture<'_>) {
    let g = group("again");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let restless = ticket();
    let (at, _) = t.waits_with(&g, restless, &ALONE, "the gap has not passed").await;
    for _ in 0..5 {
        t.waits_with(&g, restless, &ALONE, "the gap has not passed").await;
    }
    let (next, _) = t.waits(&g, &ALONE, "one waits").await;
    t.about(next, at + GAP, "the next slot");
}

pub(super) async fn a_newcomer_does_not_jump_the_line(mut t: Fixture<'_>) {
    let g = group("jump");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 3).await;
    t.pass_until(line[0].1 - MOMENT).await;
    let newcomer = ticket();
    let (at, _) = t.waits_with(&g, newcomer, &ALONE, "three are first").await;
    t.about(at, line[2].1 + GAP, "the slot behind the line");
    t.pass_until(line[0].1).await;
    t.waits_with(&g, newcomer, &ALONE, "three are first").await;
    each_comes_once(&mut t, &g, &ALONE, &line).await;
    each_comes_once(&mut t, &g, &ALONE, &[(newcomer, at)]).await;
}

pub(super) async fn the_first_may_come_early_when_the_group_is_free(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { initial_latency: GAP, ..default_policy() }).await;
    let g = group("free");
    let permit = t.goes(&g, &ALONE, "the group is free").await;
    let line = line_up(&t, &g, &ALONE, 2).await;
    let end = t.now();
    t.finish(&permit, RequestOutcome::Success).await;
    t.pass(GAP + t.slack()).await;
    let now = t.now();
    assert!(now >= end + GAP && now < line[0].1, "the slot was made for a request that takes longer");
    t.goes_with(&g, line[0].0, &ALONE, "it is the first and the group is free").await;
}

pub(super) async fn a_slow_request_moves_the_line_and_keeps_its_order(mut t: Fixture<'_>) {
    let g = group("moved");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 5).await;
    t.pass_until(line[0].1).await;
    let slow = t.goes_with(&g, line[0].0, &ALONE, "its slot has come").await;
    let mut moved = Vec::new();
    for (ticket, at) in &line[1..] {
        t.pass_until(*at).await;
        let (at, _) = t.waits_with(&g, *ticket, &ALONE, "a slow request is in flight").await;
        moved.push((*ticket, at));
    }
    // Slots are final only after the last ticket has asked.
    for (ticket, at) in &mut moved {
        (*at, _) = t.waits_with(&g, *ticket, &ALONE, "a slow request is in flight").await;
    }
    for gap in gaps(&moved) {
        assert!(gap >= GAP, "moved slots must still be {GAP:?} apart, got {:?}", gaps(&moved));
    }
    t.finish(&slow, RequestOutcome::Neutral).await;
    t.pass(GAP + t.slack()).await;
    t.goes_with(&g, moved[0].0, &ALONE, "the slow request has ended, a gap has passed and it is the first")
        .await;
}

pub(super) async fn a_slow_request_is_not_polled(mut t: Fixture<'_>) {
    let g = group("polled");
    let brief = RateLimits::one_at_a_time(MOMENT);
    let start = t.now();
    let _slow = t.goes(&g, &brief, "the group is free").await;
    let waiting = ticket();
    let lease = t.store.policy().lease;
    let mut asked = 0;
    loop {
        match t.ask(&g, waiting, &brief).await {
            Reservation::Granted(_) => break,
            Reservation::NotBefore { at, .. } => t.pass_until(at).await,
        }
        asked += 1;
        assert!(asked < 40, "it was told to come back {asked} times while one request was in flight");
    }
    let waited = t.now().since(start);
    assert!(
        waited >= lease,
        "the lease of the request in flight ends after {lease:?}, it went after {waited:?}"
    );
    assert!(waited <= lease + lease / 2, "the lease has ended after {lease:?}, it went after {waited:?}");
}

pub(super) async fn a_late_comer_has_its_slot_within_the_grace(mut t: Fixture<'_>) {
    let g = group("late");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 40).await;
    t.pass_until(line[1].1).await;
    let second = t.goes_with(&g, line[1].0, &ALONE, "its slot has come, though others missed theirs").await;
    t.finish(&second, RequestOutcome::Success).await;
    t.pass_until(line[0].1 + t.store.policy().grace - MOMENT * 10).await;
    t.goes_with(&g, line[0].0, &ALONE, "it comes late, and the group is free").await;
}

pub(super) async fn an_unclaimed_slot_lapses(mut t: Fixture<'_>) {
    let g = group("lapsed");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let (dead, at) = line_up(&t, &g, &ALONE, 1).await[0];
    t.pass_until(at).await;
    // It delays later tickets by its own slot at most.
    let next = ticket();
    t.waits_until(&g, next, &ALONE, at + GAP, WaitReason::MinDelay).await;
    t.pass_until(at + GAP + t.slack()).await;
    let permit = t.goes_with(&g, next, &ALONE, "the slot of the dead is over").await;
    t.finish(&permit, RequestOutcome::Success).await;
    let grace = t.store.policy().grace;
    t.pass_until(at + grace + MOMENT + t.slack()).await;
    let gone = t.goes(&g, &ALONE, "the slot of the dead has lapsed").await;
    t.finish(&gone, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 2).await;
    let (back, _) =
        t.waits_with(&g, dead, &ALONE, "a ticket that comes after the grace period starts anew").await;
    t.about(back, line[1].1 + GAP, "behind tickets that came meanwhile");
}

pub(super) async fn a_slot_that_is_left_is_free(mut t: Fixture<'_>) {
    let g = group("left");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 100).await;
    for (ticket, _) in &line[1..] {
        assert_eq!(t.store.cancel(&g, *ticket).await, Ok(()), "giving a slot back");
    }
    assert_eq!(t.store.cancel(&g, ticket()).await, Ok(()), "no slot, no effect");
    assert_eq!(t.store.cancel(&group("unknown"), ticket()).await, Ok(()), "no group, no effect");
    let (at, _) = t.waits(&g, &ALONE, "one is first").await;
    t.about(at, line[0].1 + GAP, "behind the only ticket that stayed");
    each_comes_once(&mut t, &g, &ALONE, &line[..1]).await;
}

pub(super) async fn a_line_too_long_is_spread(h: Fresh<'_>) {
    let mut t = Fixture::with(h, RateLimitPolicy { max_slots: 20, ..default_policy() }).await;
    let g = group("long");
    t.sends(&g, &ALONE, RequestOutcome::Success).await;
    let line = line_up(&t, &g, &ALONE, 20).await;
    let mut told = HashSet::new();
    for _ in 0..20 {
        let (at, why) = t.waits(&g, &ALONE, "twenty wait").await;
        assert_eq!(why, WaitReason::Overloaded, "a full queue keeps no slot for more tickets");
        assert!(
            at >= line[19].1 + GAP,
            "behind the line, but told {at:?} while the last is at {:?}",
            line[19].1
        );
        told.insert(at);
    }
    assert!(told.len() > 10, "refused tickets are spread, but all are told {told:?}");
    each_comes_once(&mut t, &g, &ALONE, &line).await;
}
