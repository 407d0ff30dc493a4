//! Case: random schedules against a model.

use super::fixture::*;
use super::model::Model;

const STEPS: u64 = 250;

pub(super) async fn any_schedule_agrees_with_the_model(mut t: Fixture<'_>) {
    for seed in 0..6 {
        let id = t.start(&format!("seed-{seed}"), None).await;
        pass_day(&mut t, &id, seed).await;
        t.set(&id, CrawlState::Cancelled).await;
        t.take_back().await;
    }
}

async fn pass_day(t: &mut Fixture<'_>, id: &CrawlId, seed: u64) {
    let dice = Jitter::seeded(seed);
    let roll = |sides: u64| dice.next_u64() % sides;
    let pick = |list: usize| usize::try_from(roll(list.max(1) as u64)).unwrap_or(0);
    let mut model = Model::default();
    let mut receipts: Vec<ClaimedUrl> = Vec::new();
    // Enough to keep the crawl running for a while.
    for number in 0..20 {
        let new = url(&format!("{}.{seed}.example", number % 4), &format!("first-{number}"));
        model.add(&new, t.now());
        t.adds(id, &[new]).await;
    }
    for step in 0..STEPS {
        let (what, now) = (format!("seed {seed}, step {step}"), t.now());
        match roll(13) {
            0 | 1 => {
                let new: Vec<_> = (0..=roll(4))
                    .map(|_| url(&format!("{}.{seed}.example", roll(4)), &roll(12).to_string()))
                    .collect();
                let expected: Vec<_> = new.iter().map(|new| model.add(new, now)).collect();
                assert_eq!(t.add(id, &new).await, expected, "{what}: adding");
            }
            2..=4 => take(t, &mut model, &mut receipts, (1 + pick(4), 1 + u32::from(roll(2) == 0))).await,
            5..=7 if !receipts.is_empty() => {
                let taken = receipts.remove(pick(receipts.len()));
                let rest = SECOND * u32::from(roll(2) == 0);
                let ending = match roll(8) {
                    0 => UrlVerdict::Done {
                        outcome: "published".to_owned(),
                        facts: PageFacts::default(),
                        host_delay: rest,
                    },
                    1..=5 => UrlVerdict::Retry { after: SECOND, error: what.clone(), host_delay: rest },
                    6 => UrlVerdict::Defer { until: now + SECOND },
                    _ => UrlVerdict::Dead { reason: what.clone(), host_delay: rest },
                };
                let expected = model.settle(&taken, &ending, now);
                assert_eq!(t.settles(&taken, ending).await, expected, "{what}: settling {}", taken.url);
            }
            8 if !receipts.is_empty() => {
                let place = pick(receipts.len());
                let held = t.extend(&[&receipts[place]]).await;
                assert_eq!(held, [model.extend(&mut receipts[place], now)], "{what}: extending");
            }
            9 if roll(3) == 0 => {
                let dead = model.dead();
                if let Some(item) = dead.get(pick(dead.len())) {
                    let replayed = t.replay(from_ref(item)).await;
                    assert_eq!(replayed, [model.replay(item, now)], "{what}: replaying");
                }
            }
            10 if roll(8) == 0 => {
                let taken_back = t.take_back().await;
                assert_eq!(taken_back, model.take_back(now), "{what}: taking back");
            }
            11 => {
                for taken in &receipts {
                    assert_eq!(t.alone(taken).await, model.alone(taken), "{what}: {} alone", taken.url);
                }
            }
            _ => {
                let far = [MOMENT, SECOND, SECOND * 3, LEASE / 2, LEASE - SECOND * 2][pick(5)];
                // A backend may expire a lease at its end or when it is next noticed; here it is noticed at once.
                let ends = model.lease_ends(now, far);
                t.pass(far + if ends { MOMENT } else { Duration::ZERO }).await;
                if ends {
                    take(t, &mut model, &mut receipts, (100, 2)).await;
                }
            }
        }
        let counted = t.four(id).await;
        assert_eq!(counted, model.count(), "{what}: waiting, in flight, done, dead");
        let [waiting, in_flight, ..] = counted;
        if waiting + in_flight > 0 {
            t.is(id, CrawlState::Running, "something is left to do").await;
        }
        if waiting > 0 && in_flight == 0 {
            let (told, due, now) = (expect_ok(t.store.next_due().await, "asking when"), model.due(), t.now());
            assert_eq!(told.map(|at| at.max(now)), due.map(|at| at.max(now)), "{what}: the next due time");
        }
        let mut listed: Vec<String> = t.dead(Some(id), 3).await.into_iter().map(|dead| dead.item).collect();
        let mut expected = model.dead();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected, "{what}: the dead");
        if waiting + in_flight == 0 && counted[2] + counted[3] > 0 {
            t.is(id, CrawlState::Finished, "nothing is left to do").await;
            return;
        }
    }
}

async fn take(
    t: &mut Fixture<'_>,
    model: &mut Model,
    receipts: &mut Vec<ClaimedUrl>,
    (max, per_host): (usize, u32),
) {
    let taken = t.next(max, per_host).await;
    model.take(&taken, max, per_host, t.now());
    receipts.extend(taken);
}
