//! Cases: concurrent callers, and random schedules against a model.

use super::fixture::*;

const CALLERS: usize = 12;

/// Concurrent claims of the same URLs, of every second caller in the opposite order if `opposite`; their answers.
async fn race(t: &mut Fixture<'_>, urls: &[String], opposite: bool) -> Vec<Vec<ClaimOutcome>> {
    t.race(CALLERS, |caller, seen| {
        let mut batch: Vec<Claim> = urls.iter().map(|url| claim(url, &format!("item-{caller}"))).collect();
        if opposite && caller % 2 == 1 {
            batch.reverse();
        }
        async move { expect_ok(seen.claim(&batch, TERM).await, "claiming in a race") }
    })
    .await
}

pub(super) async fn racing_claims_have_one_winner(mut t: Fixture<'_>) {
    for round in 0..10 {
        let urls: Vec<String> = (0..8).map(|number| format!("https://a.example/{round}/{number}")).collect();
        let answers = race(&mut t, &urls, false).await;
        for (number, url) in urls.iter().enumerate() {
            let winners: Vec<usize> =
                (0..CALLERS).filter(|caller| answers[*caller][number] == ClaimOutcome::Granted).collect();
            let [winner] = winners[..] else {
                panic!("{url} must have one owner of {CALLERS}, and has {winners:?}")
            };
            for told in
                answers.iter().map(|answers| &answers[number]).filter(|told| **told != ClaimOutcome::Granted)
            {
                let right =
                    matches!(told, ClaimOutcome::Taken { owner, .. } if *owner == format!("item-{winner}"));
                assert!(right, "other claims of {url} are refused because of item-{winner}, not {told:?}");
            }
        }
    }
}

pub(super) async fn batches_in_opposite_order_do_not_block_each_other(mut t: Fixture<'_>) {
    for round in 0..5 {
        let urls: Vec<String> =
            (0..200).map(|number| format!("https://a.example/{round}/{number}")).collect();
        let answers = race(&mut t, &urls, true).await;
        let won = answers.iter().flatten().filter(|answer| **answer == ClaimOutcome::Granted).count();
        assert_eq!(won, urls.len(), "every URL has one owner");
    }
}

/// Expected state of a URL.
#[derive(Clone)]
struct ModelUrl {
    owner: String,
    seen: bool,
    until: Timestamp,
}

pub(super) async fn any_schedule_agrees_with_the_model(mut t: Fixture<'_>) {
    for seed in 0..6 {
        let dice = Jitter::seeded(seed);
        let roll = |sides: u64| dice.next_u64() % sides;
        let mut model: HashMap<String, ModelUrl> = HashMap::new();
        for step in 0..150 {
            let (url, owner) = (format!("https://{seed}.example/{}", roll(5)), format!("item-{}", roll(3)));
            let now = t.now();
            let known = model.get(&url).filter(|known| known.until > now).cloned();
            match roll(8) {
                0..=3 => {
                    let told = t.claim(&url, &owner).await;
                    let right = match (&known, &told) {
                        (None, ClaimOutcome::Granted) => true,
                        (Some(known), ClaimOutcome::Granted) => !known.seen && known.owner == owner,
                        (Some(known), ClaimOutcome::Taken { owner: has, .. }) => {
                            !known.seen && known.owner == *has && *has != owner
                        }
                        (Some(known), ClaimOutcome::Seen { owner: has, .. }) => {
                            known.seen && known.owner == *has
                        }
                        (None, _) => false,
                    };
                    assert!(right, "seed {seed}, step {step}: {owner} claims {url} and is told {told:?}");
                    if let (
                        Some(known),
                        ClaimOutcome::Taken { until, .. } | ClaimOutcome::Seen { until, .. },
                    ) = (&known, &told)
                    {
                        t.about(*until, known.until, &format!("seed {seed}, step {step}: the end at {url}"));
                    }
                    if told == ClaimOutcome::Granted {
                        model.insert(url, ModelUrl { owner, seen: false, until: now + TERM });
                    }
                }
                4 => {
                    expect_ok(t.store.mark(&[note(&url, &owner, TTL)]).await, "marking");
                    model.insert(url, ModelUrl { owner, seen: true, until: now + TTL });
                }
                5 => {
                    t.release(&url, &owner).await;
                    if known.is_some_and(|known| !known.seen && known.owner == owner) {
                        model.remove(&url);
                    }
                }
                6 if roll(4) == 0 => {
                    let count = t.forget(&[&url]).await;
                    assert_eq!(
                        count,
                        u64::from(known.is_some()),
                        "seed {seed}, step {step}: {url} is forgotten"
                    );
                    model.remove(&url);
                }
                6 => {
                    t.sweep(3).await;
                }
                // Never close to the end of anything, so that a clock that runs by itself agrees too.
                _ => {
                    let far = [MARGIN, TERM / 2, TERM / 2, TERM + MARGIN, TTL + MARGIN];
                    let far = far[usize::try_from(roll(5)).unwrap_or(0)];
                    t.pass(far).await;
                    let close = |known: &ModelUrl| {
                        let now = t.now();
                        known.until.since(now).max(now.since(known.until)) < Duration::from_secs(6)
                    };
                    if model.values().any(close) {
                        t.pass(Duration::from_secs(12)).await;
                    }
                }
            }
        }
    }
}
