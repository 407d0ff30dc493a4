//! Cases: lists of dead letters.

use super::fixture::*;

pub(super) async fn pages_have_every_letter_once(t: Fixture<'_>) {
    const LETTERS: usize = 2500;
    let one = t.open("one").await;
    let names: Vec<String> = (0..LETTERS).map(|number| format!("{number:05}")).collect();
    let mut ids = Vec::new();
    for names in names.chunks(250) {
        let letters: Vec<NewDeadLetter> = names.iter().map(|name| letter(&key(name))).collect();
        for added in expect_ok(t.store.add_dead_letters(&one, &letters).await, "adding many") {
            let AddDeadLetterOutcome::Dead(id) = added else {
                panic!("all of them are dead letters: {added:?}")
            };
            ids.push(id);
        }
    }
    assert_eq!(expect_ok(t.store.count_dead_letters(QUEUE).await, "counting"), LETTERS as u64);
    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    let all = DeadLetterFilter::default();
    loop {
        let page = expect_ok(t.store.dead_letters(QUEUE, &all, after, 700).await, "listing");
        listed.extend(page.letters.iter().map(|letter| letter.message.key().to_owned()));
        pages += 1;
        // The list changes under way: the cursor's own letter is dropped, and others die.
        if let Some(cursor) = page.next {
            assert!(t.drop_letter(cursor).await);
            t.dead_lettered(&one, &letter(&key(&format!("later-{pages}")))).await;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let later = ["later-1", "later-2", "later-3"].map(str::to_owned);
    assert_eq!(listed, [names, later.to_vec()].concat(), "each letter once, oldest first");
    assert_eq!(pages, 4);
    let page = expect_ok(t.store.dead_letters(QUEUE, &all, None, usize::MAX).await, "listing without end");
    assert_eq!(page.letters.len(), MAX_PAGE_SIZE, "a page is bounded");
    let page = expect_ok(t.store.dead_letters(QUEUE, &all, None, 0).await, "listing none");
    assert_eq!(page, DeadLetterPage::default());
    // By ids, in pages too; of those that are gone none.
    let filter = DeadLetterFilter { ids: ids.iter().copied().step_by(3).collect(), ..all };
    let page = expect_ok(t.store.dead_letters(QUEUE, &filter, Some(ids[299]), 500).await, "listing by ids");
    assert_eq!(page.letters.len(), 500);
    assert!(page.letters[0].id == ids[300] && page.next == Some(page.letters[499].id), "{:?}", page.next);
}

pub(super) async fn a_filter_picks(mut t: Fixture<'_>) {
    let one = t.open("one").await;
    let failure = |error: &str| Some(Failure { error: error.to_owned(), at: at(1) });
    let mut ids = Vec::new();
    for (number, (cause, reason, first, last)) in [
        ("refused", "Not a URL", None, None),
        ("attempts_used_up", "5 attempts", failure("TIMEOUT after 30s"), failure("reset")),
        ("worker_lost", "STRASSE 100%", failure("reset"), failure("Größe_1")),
    ]
    .into_iter()
    .enumerate()
    {
        let mut letter = letter(&key(&number.to_string()));
        letter.detail.cause = cause.to_owned();
        letter.detail.reason = reason.to_owned();
        letter.detail.first_error = first;
        letter.detail.last_error = last;
        ids.push(t.dead_lettered(&one, &letter).await);
        t.pass(Duration::from_secs(60)).await;
    }
    let times: Vec<Timestamp> = t.letters().await.iter().map(|letter| letter.dead_at).collect();
    let text = |text: &str| Some(text.to_owned());
    let all = DeadLetterFilter::default();
    for (filter, expected) in [
        (DeadLetterFilter { item: text("item-1"), ..all.clone() }, &[1][..]),
        (DeadLetterFilter { cause: text("worker_lost"), ..all.clone() }, &[2]),
        (DeadLetterFilter { reason: text("not a url"), ..all.clone() }, &[0]),
        (DeadLetterFilter { reason: text("%"), ..all.clone() }, &[2]),
        (DeadLetterFilter { error: text("timeout"), ..all.clone() }, &[1]),
        (DeadLetterFilter { error: text("RESET"), ..all.clone() }, &[1, 2]),
        (DeadLetterFilter { error: text("GRÖSSE"), ..all.clone() }, &[]),
        (DeadLetterFilter { error: text("größe_"), ..all.clone() }, &[2]),
        (DeadLetterFilter { since: Some(times[1]), ..all.clone() }, &[1, 2]),
        (DeadLetterFilter { until: Some(times[1]), ..all.clone() }, &[0]),
        (DeadLetterFilter { ids: [ids[2], ids[0], DeadLetterId(0)].into(), ..all.clone() }, &[0, 2]),
        (DeadLetterFilter { ids: [ids[1]].into(), cause: text("refused"), ..all.clone() }, &[]),
    ] {
        let found: Vec<DeadLetterId> = t.list(QUEUE, &filter).await.iter().map(|letter| letter.id).collect();
        let expected: Vec<DeadLetterId> = expected.iter().map(|number| ids[*number]).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub(super) async fn queues_are_apart(t: Fixture<'_>) {
    let one = t.open("one").await;
    let mut ids = Vec::new();
    for queue in ["a", "ab", "A", "a"] {
        let name = ids.len().to_string();
        ids.push(t.dead_lettered(&one, &letter(&MessageKey::new(queue, name).expect("a key"))).await);
    }
    for (queue, expected) in [("a", &[0, 3][..]), ("ab", &[1]), ("A", &[2]), ("b", &[]), ("", &[])] {
        let expected: Vec<DeadLetterId> = expected.iter().map(|number| ids[*number]).collect();
        let by_id = DeadLetterFilter { ids: ids.iter().copied().collect(), ..DeadLetterFilter::default() };
        for filter in [DeadLetterFilter::default(), by_id] {
            let found: Vec<DeadLetterId> =
                t.list(queue, &filter).await.iter().map(|letter| letter.id).collect();
            assert_eq!(found, expected, "queue `{queue}`");
        }
        let count = expect_ok(t.store.count_dead_letters(queue).await, "counting");
        assert_eq!(count, expected.len() as u64, "queue `{queue}`");
    }
}
