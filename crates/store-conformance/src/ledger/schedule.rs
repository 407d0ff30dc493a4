//! Cases: shared and reopened ledgers, and random schedules against a model.

use super::fixture::*;

pub(super) async fn everything_survives_a_reopening(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let [a, b, c] = ["a", "b", "c"].map(key);
    t.taken(&one, &a).await;
    assert!(t.settle(&one, &a, failed("timeout")).await);
    t.take_all(&one, &[a.clone(), b.clone()]).await;
    assert!(t.mark_solo(&one, &b).await);
    let id = t.dead_lettered(&two, &letter(&c)).await;
    t = t.reopened().await;
    assert!(t.heartbeat(&one).await && t.heartbeat(&two).await, "sessions live by their leases");
    assert!(matches!(t.take(&two, &b).await, TakeOutcome::Busy { .. }));
    assert_eq!(t.counts(&two, &a).await, [1, 1, 0]);
    assert_eq!((t.letters().await[0].id, t.body(id).await), (id, Some(b"c".to_vec())));
}

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let (first, second) = (t.store.clone(), t.another_handle().await);
    let one = t.open("one").await;
    t.taken(&one, &key("a")).await;
    t.store = second;
    let two = t.open("two").await;
    assert!(t.heartbeat(&one).await);
    assert_eq!(t.counts(&two, &key("a")).await, [0, 1, 0]);
    let id = t.dead_lettered(&two, &letter(&key("a"))).await;
    t.store = first;
    assert_eq!(t.take(&one, &key("a")).await, TakeOutcome::Dead(id));
    assert!(t.drop_letter(id).await);
}

/// Expected state of a message.
#[derive(Default)]
struct ModelMessage {
    holder: Option<usize>,
    solo: bool,
    counts: [u32; 3],
    dead: bool,
}

pub(super) async fn any_schedule_agrees_with_the_model(mut t: Fixture<'_>) {
    const SESSIONS: usize = 3;
    for seed in 0..8 {
        let dice = Jitter::seeded(seed);
        let roll = |sides: u64| usize::try_from(dice.next_u64() % sides).unwrap_or(0);
        // A crashed session is replaced by the next generation.
        let mut generations = [0; SESSIONS];
        let name = |number: usize, generation: i32| format!("{seed}-{number}-{generation}");
        for number in 0..SESSIONS {
            t.open(&name(number, 0)).await;
        }
        let keys: Vec<MessageKey> = (0..5).map(|number| key(&format!("{seed}-{number}"))).collect();
        let mut model: Vec<ModelMessage> = keys.iter().map(|_| ModelMessage::default()).collect();
        for step in 0..60 {
            let (number, which) = (roll(3), roll(5));
            let (id, message) = (session(&name(number, generations[number])), &keys[which]);
            let known = &mut model[which];
            let what = format!("seed {seed}, step {step}: {id} and {}", message.key());
            let mine = known.holder == Some(number);
            match roll(10) {
                0..=3 => {
                    let taken = t.take(&id, message).await;
                    if known.dead {
                        assert!(matches!(taken, TakeOutcome::Dead(_)), "{what}: {taken:?}");
                    } else if known.solo && !mine {
                        assert!(matches!(taken, TakeOutcome::Busy { .. }), "{what}: {taken:?}");
                    } else {
                        known.counts[1] += u32::from(known.holder.is_some() && !mine);
                        known.holder = Some(number);
                        known.solo = false;
                        let TakeOutcome::Taken(history) = taken else { panic!("{what}: {taken:?}") };
                        assert_eq!(counts(&history), known.counts, "{what}");
                    }
                }
                4 => {
                    assert_eq!(t.mark_solo(&id, message).await, mine, "{what}: marked");
                    if mine {
                        let others = model.iter_mut().filter(|other| other.holder == Some(number));
                        others.for_each(|other| other.solo = false);
                        model[which].solo = true;
                    }
                }
                5 | 6 => {
                    let settlement =
                        [Settlement::Done, Settlement::Returned, failed("x"), Settlement::LeaseExpired]
                            [roll(4)]
                        .clone();
                    let settled = t.settle(&id, message, settlement.clone()).await;
                    assert_eq!(settled, mine || known.holder.is_none(), "{what}: settled");
                    if mine {
                        match settlement {
                            Settlement::Done => known.counts = [0; 3],
                            Settlement::Returned => {}
                            Settlement::Failed { .. } => known.counts[0] += 1,
                            Settlement::LeaseExpired => known.counts[1] += 1,
                        }
                        (known.holder, known.solo) = (None, false);
                    }
                }
                7 if roll(3) == 0 => {
                    let added = t.add_dead_letters(&id, &letter(message)).await;
                    if mine || known.holder.is_none() {
                        assert!(matches!(added, AddDeadLetterOutcome::Dead(_)), "{what}: {added:?}");
                        *known = ModelMessage { dead: true, ..ModelMessage::default() };
                    } else {
                        assert_eq!(added, AddDeadLetterOutcome::Fenced, "{what}");
                    }
                }
                8 if roll(2) == 0 => {
                    let others: Vec<SessionId> = (0..SESSIONS)
                        .filter(|other| *other != number)
                        .map(|other| session(&name(other, generations[other])))
                        .collect();
                    let lost = t.crash_all_but(&others.iter().collect::<Vec<_>>()).await;
                    assert_eq!(lost.iter().map(|lost| &lost.session).collect::<Vec<_>>(), [&id], "{what}");
                    for known in model.iter_mut().filter(|known| known.holder == Some(number)) {
                        known.counts[1] += 1;
                        known.counts[2] += u32::from(known.solo);
                        (known.holder, known.solo) = (None, false);
                    }
                    generations[number] += 1;
                    t.open(&name(number, generations[number])).await;
                }
                9 => {
                    expect_ok(t.store.close_session(&id).await, "closing");
                    for known in model.iter_mut().filter(|known| known.holder == Some(number)) {
                        (known.holder, known.solo) = (None, false);
                    }
                    generations[number] += 1;
                    t.open(&name(number, generations[number])).await;
                }
                _ => assert!(t.heartbeat(&id).await, "{what}: a heartbeat"),
            }
        }
        for (number, generation) in generations.into_iter().enumerate() {
            expect_ok(t.store.close_session(&session(&name(number, generation))).await, "closing");
        }
    }
}
