//! Cases: dead letters, and crashes between the steps of dead-lettering.

use super::fixture::*;

pub(super) async fn a_dead_letter_comes_back_whole(t: Fixture<'_>) {
    let one = t.open("one").await;
    let failure = |error: &str, second| Some(Failure { error: error.to_owned(), at: at(second) });
    let mut headers: BTreeMap<String, String> =
        odd_texts().into_iter().enumerate().map(|(number, text)| (number.to_string(), text)).collect();
    headers.insert("ünïcode \"name\"".to_owned(), String::new());
    headers.insert("nul".to_owned(), WITH_NUL.to_owned());
    let detail = DeadLetterDetail {
        item: "0197-item".to_owned(),
        partition_key: Some("key".to_owned()),
        group: Some("example.org".to_owned()),
        headers,
        published_at: at(1),
        cause: "attempts_used_up".to_owned(),
        reason: odd_texts().join(" "),
        attempts: 5,
        first_error: failure("first \u{1f577}", 2),
        last_error: failure("last", 3),
        replays: 7,
        defects: vec!["duplicate-header email".to_owned()],
    };
    let message = key("a");
    let new = NewDeadLetter { message: message.clone(), detail: detail.clone(), body: (0..=255).collect() };
    let died = t.now();
    let id = t.dead_lettered(&one, &new).await;
    let letters = t.letters().await;
    let [found] = &letters[..] else { panic!("there is one letter: {letters:?}") };
    assert_eq!((found.id, &found.message, found.body_len, found.epoch), (id, &message, 256, 0));
    assert_eq!(found.detail, detail);
    t.about(found.dead_at, died, "the time at which it became a dead letter");
    assert_eq!(t.body(id).await, Some((0..=255).collect()));
}

pub(super) async fn bodies_of_any_size_come_back(t: Fixture<'_>) {
    let one = t.open("one").await;
    let dice = Jitter::seeded(7);
    let body = |length: usize| -> Vec<u8> { (0..length).map(|_| dice.next_u64().to_le_bytes()[0]).collect() };
    let letters: Vec<NewDeadLetter> = [0, 1, 1 << 10, 1 << 20, 9 << 20]
        .into_iter()
        .map(|length| NewDeadLetter { body: body(length), ..letter(&key(&length.to_string())) })
        .collect();
    let mut ids = Vec::new();
    for added in expect_ok(t.store.add_dead_letters(&one, &letters).await, "adding large bodies") {
        let AddDeadLetterOutcome::Dead(id) = added else { panic!("all of them are dead letters: {added:?}") };
        ids.push(id);
    }
    assert!(ids.is_sorted(), "letters are numbered in their order: {ids:?}");
    ids.push(DeadLetterId(u64::from(u32::MAX)));
    let bodies = expect_ok(t.store.bodies(&ids).await, "reading bodies");
    assert!(bodies.len() == 6 && bodies[5].is_none(), "there is no such letter");
    for ((new, body), listed) in letters.iter().zip(bodies).zip(t.letters().await) {
        assert!(body.as_ref() == Some(&new.body), "the body of {} bytes comes back", new.body.len());
        assert_eq!(listed.body_len, new.body.len() as u64);
    }
}

pub(super) async fn a_message_dies_once(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let first = letter(&key("a"));
    let id = t.dead_lettered(&one, &first).await;
    let mut again = letter(&key("a"));
    again.detail.reason = "another reason".to_owned();
    again.body = vec![1];
    assert_eq!(t.add_dead_letters(&one, &again).await, AddDeadLetterOutcome::Dead(id), "a repetition");
    t.store = t.another_handle().await;
    assert_eq!(t.add_dead_letters(&two, &again).await, AddDeadLetterOutcome::Dead(id), "by another process");
    let letters = t.letters().await;
    assert_eq!((letters.len(), &letters[0].detail), (1, &first.detail), "the first one counts");
    assert_eq!(t.body(id).await, Some(first.body));
}

pub(super) async fn a_crash_after_the_first_step_repeats_the_rest(mut t: Fixture<'_>) {
    let dead = t.open("dead").await;
    let a = key("a");
    t.taken(&dead, &a).await;
    let id = t.dead_lettered(&dead, &letter(&a)).await;
    // The process crashes before the copy is published and the message settled.
    t = t.reopened().await;
    let next = t.open("next").await;
    for _ in 0..2 {
        assert_eq!(t.take(&next, &a).await, TakeOutcome::Dead(id), "it is delivered again, and not run");
    }
    let lost = t.crash_all_but(&[&next]).await;
    assert!(lost.iter().all(|lost| lost.suspects.is_empty()), "a dead message is no suspect: {lost:?}");
    assert_eq!(t.take(&next, &a).await, TakeOutcome::Dead(id));
    assert_eq!(t.letters().await.len(), 1);
}

pub(super) async fn a_death_ends_the_history(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let a = key("a");
    t.taken(&one, &a).await;
    assert!(t.settle(&one, &a, failed("timeout")).await);
    t.taken(&one, &a).await;
    t.dead_lettered(&one, &letter(&a)).await;
    assert!(t.settle(&one, &a, Settlement::Done).await, "it is not in flight");
    let lost = t.crash_all_but(&[&two]).await;
    assert_eq!(lost.iter().map(|lost| lost.suspects.len()).sum::<usize>(), 0);
    t.pass_all_of(POLICY.retention).await;
    assert_eq!(t.purge(100).await, t.purged(1), "there is a lost session to purge, and no history");
}

pub(super) async fn a_message_of_another_session_is_not_dead_lettered(t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let [a, b] = ["a", "b"].map(key);
    t.take_all(&one, &[a.clone(), b.clone()]).await;
    t.taken(&two, &a).await;
    let added = t.store.add_dead_letters(&one, &[letter(&a), letter(&b)]).await;
    let added = expect_ok(added, "adding");
    assert!(matches!(added[..], [AddDeadLetterOutcome::Fenced, AddDeadLetterOutcome::Dead(_)]), "{added:?}");
    assert!(t.settle(&two, &a, Settlement::Done).await, "it is still in the other hands");
    assert_eq!(t.letters().await.len(), 1);
}

pub(super) async fn racing_calls_make_one_dead_letter(mut t: Fixture<'_>) {
    for number in 0..6 {
        t.open(&number.to_string()).await;
    }
    let letters: Vec<NewDeadLetter> = (0..20).map(|number| letter(&key(&number.to_string()))).collect();
    let answers = t
        .race(6, |worker, ledger| {
            let letters = letters.clone();
            async move {
                let added = ledger.add_dead_letters(&session(&worker.to_string()), &letters).await;
                expect_ok(added, "adding concurrently")
            }
        })
        .await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "all are told the same letters: {answers:?}");
    assert_eq!(t.letters().await.len(), letters.len());
}
