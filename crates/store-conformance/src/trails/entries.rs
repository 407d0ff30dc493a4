//! Cases: entries are read by item and by subject, in order.

use super::fixture::*;

pub(super) async fn every_field_comes_back(t: Fixture<'_>) {
    let mut entries: Vec<TrailEntry> =
        (0..).zip(AttemptEnd::ALL).map(|(second, end)| entry("one", second, end)).collect();
    entries[1].subject = None;
    entries[2] = TrailEntry {
        item: "one".to_owned(),
        subject: Some("https://b.example/".to_owned()),
        flow: "another flow".to_owned(),
        stage: "another stage".to_owned(),
        at: at(2),
        end: AttemptEnd::Retried,
        outcome: "in its own words".to_owned(),
        attempt: u32::MAX,
        took_ms: 5_000_000_000,
        worker: "another worker".to_owned(),
        replays: u32::MAX,
        note: Some("for the second time".to_owned()),
        error: Some("timed out".to_owned()),
    };
    t.record(&entries).await;
    assert_eq!(t.of_item("one").await, entries, "the trail as it was recorded");
}

pub(super) async fn notes_and_errors_are_kept_apart_and_replays_are_counted(t: Fixture<'_>) {
    let entries = [
        TrailEntry { error: Some("it broke".to_owned()), ..entry("one", 1, AttemptEnd::Dead) },
        TrailEntry {
            replays: 1,
            note: Some("after it broke".to_owned()),
            ..entry("one", 2, AttemptEnd::Replayed)
        },
        TrailEntry { replays: 1, note: Some("3 links".to_owned()), ..entry("one", 3, AttemptEnd::Done) },
        // Whatever is said of a success is recorded as it is said.
        TrailEntry { replays: 1, error: Some("odd".to_owned()), ..entry("one", 4, AttemptEnd::Done) },
    ];
    t.record(&entries).await;
    assert_eq!(t.of_item("one").await, entries, "what went well is in no error");
}

pub(super) async fn an_unknown_item_has_no_trail(t: Fixture<'_>) {
    t.record(&[entry("one", 0, AttemptEnd::Passed)]).await;
    assert_eq!(t.of_item("two").await, [], "nothing happened to it");
    assert_eq!(t.of_subject("two", 10).await, [[]; 0], "no item is about it");
    assert_eq!(t.of_subject("one", 10).await, [[]; 0], "an item is not its subject");
    assert_eq!(t.of_item("https://one.example/").await, [], "a subject is no item");
}

pub(super) async fn an_empty_batch_adds_nothing(t: Fixture<'_>) {
    t.record(&[]).await;
    assert_eq!(t.open_items(10).await, [""; 0], "nothing is there");
    assert_eq!(t.expire(u64::from(u32::MAX), 10).await, 0, "nothing to delete");
}

pub(super) async fn a_trail_is_in_order_of_time(t: Fixture<'_>) {
    let [first, second, third] = [1, 2, 3].map(|second| entry("one", second, AttemptEnd::Retried));
    t.record(&[third.clone(), first.clone()]).await;
    t.record(from_ref(&second)).await;
    assert_eq!(
        t.of_item("one").await,
        [first, second, third],
        "oldest first, in whatever order they were added"
    );
}

pub(super) async fn entries_of_one_time_are_in_the_order_they_were_added(t: Fixture<'_>) {
    let named =
        |outcome: &str| TrailEntry { outcome: outcome.to_owned(), ..entry("one", 5, AttemptEnd::Passed) };
    let entries = ["z", "a", "m", "b", "y"].map(named);
    t.record(&entries[..2]).await;
    t.record(&entries[2..]).await;
    assert_eq!(t.of_item("one").await, entries, "in the order they were added");
    let subject = t.of_subject("https://one.example/", 1).await;
    assert_eq!(subject, [entries.to_vec()], "by subject too");
}

pub(super) async fn terminal_entries_are_the_last_of_their_time(t: Fixture<'_>) {
    for end in [AttemptEnd::Done, AttemptEnd::Dead] {
        let item = end.as_str();
        let [before, after] = [4, 6].map(|second| entry(item, second, AttemptEnd::Waited));
        let [passed, retried] = [AttemptEnd::Passed, AttemptEnd::Retried].map(|end| entry(item, 5, end));
        let closed = entry(item, 5, end);
        t.record(&[after.clone(), closed.clone()]).await;
        t.record(&[retried.clone(), passed.clone()]).await;
        t.record(from_ref(&before)).await;
        let expected = [before, retried, passed, closed, after];
        assert_eq!(
            t.of_item(item).await,
            expected,
            "{end} after what passed the item on, though it was added first"
        );
        let subject = t.of_subject(&format!("https://{item}.example/"), 1).await;
        assert_eq!(subject, [expected.to_vec()], "by subject too");
    }
}

pub(super) async fn trails_of_items_are_apart(t: Fixture<'_>) {
    let items = ["item", "Item", "item ", "item%", "item_", "items", "\u{ef}tem"];
    let entries = items.map(|item| entry(item, 1, AttemptEnd::Passed));
    t.record(&entries).await;
    for (item, entry) in items.iter().zip(entries) {
        assert_eq!(t.of_item(item).await, [entry], "`{item}` is one item");
    }
    assert_eq!(t.open_items(100).await.len(), items.len(), "all are open, each once");
}

pub(super) async fn a_subject_has_the_whole_trails_of_its_items(t: Fixture<'_>) {
    let about = |subject: Option<&str>, second| TrailEntry {
        subject: subject.map(str::to_owned),
        ..entry("one", second, AttemptEnd::Passed)
    };
    let one = [about(None, 1), about(Some("here"), 2), about(Some("there"), 3), about(Some("here"), 4)];
    let two = TrailEntry { subject: Some("there".to_owned()), ..entry("two", 9, AttemptEnd::Passed) };
    t.record(&one).await;
    t.record(from_ref(&two)).await;
    let here = t.of_subject("here", 10).await;
    assert_eq!(here, [one.to_vec()], "entries that name no subject or another belong to the trail too");
    let there = t.of_subject("there", 10).await;
    assert_eq!(there, [vec![two], one.to_vec()], "both items were about it at some time");
}

pub(super) async fn the_item_with_the_latest_entry_comes_first(t: Fixture<'_>) {
    let about = |item: &str, second| TrailEntry {
        subject: Some("here".to_owned()),
        ..entry(item, second, AttemptEnd::Passed)
    };
    let elsewhere = TrailEntry { subject: None, ..entry("b", 9, AttemptEnd::Done) };
    t.record(&[about("a", 5), about("b", 1), about("c", 7), elsewhere, about("a", 2)]).await;
    let items: Vec<String> =
        t.of_subject("here", 10).await.iter().map(|trail| trail[0].item.clone()).collect();
    assert_eq!(items, ["b", "c", "a"], "any entry of the item counts, whatever its subject");
}

pub(super) async fn a_subject_shows_no_more_items_than_asked(t: Fixture<'_>) {
    let mut entries = Vec::new();
    for number in 0..6 {
        for second in 0..3 {
            let item = format!("item-{number}");
            let at = number * 10 + second;
            let subject = Some("here".to_owned());
            entries.push(TrailEntry { subject, ..entry(&item, at, AttemptEnd::Passed) });
        }
    }
    t.record(&entries).await;
    for most in [0, 1, 4, 6, 7] {
        let trails = t.of_subject("here", most).await;
        let items: Vec<&str> = trails.iter().map(|trail| trail[0].item.as_str()).collect();
        let expected: Vec<String> = (0..6).rev().take(most).map(|number| format!("item-{number}")).collect();
        assert_eq!(items, expected, "the latest {most} items");
        assert!(trails.iter().all(|trail| trail.len() == 3), "the limit is of items, not of entries");
    }
}

pub(super) async fn odd_texts_come_back(t: Fixture<'_>) {
    for (number, text) in odd_texts().iter().enumerate() {
        let odd = TrailEntry {
            flow: text.clone(),
            stage: text.clone(),
            outcome: text.clone(),
            worker: text.clone(),
            note: Some(text.clone()),
            error: Some(text.clone()),
            ..entry(&format!("item-{number}"), 1, AttemptEnd::Retried)
        };
        t.record(from_ref(&odd)).await;
        assert_eq!(t.of_item(&odd.item).await, [odd], "{text:?} as it was recorded");
    }
    for url in odd_urls() {
        let odd = TrailEntry {
            subject: Some(url.clone()),
            ..entry(&format!("about {url}"), 1, AttemptEnd::Passed)
        };
        t.record(from_ref(&odd)).await;
        assert_eq!(t.of_item(&odd.item).await, from_ref(&odd), "the trail of an odd item");
        assert_eq!(t.of_subject(&url, 10).await, [[odd]], "the trail of {url:.80}, and no other");
    }
}

pub(super) async fn a_nul_does_not_fail_the_call(t: Fixture<'_>) {
    let odd = TrailEntry {
        note: Some(WITH_NUL.to_owned()),
        error: Some(WITH_NUL.to_owned()),
        outcome: WITH_NUL.to_owned(),
        worker: WITH_NUL.to_owned(),
        ..entry("one", 1, AttemptEnd::Retried)
    };
    t.record(&[odd, entry("two", 2, AttemptEnd::Passed)]).await;
    let kept = t.of_item("one").await;
    assert_eq!(kept.len(), 1, "the entry is kept");
    let error = kept[0].error.clone().unwrap_or_default();
    assert!(error.starts_with("before") && error.ends_with("after"), "what can be kept is: {error:?}");
    assert_eq!(t.of_item("two").await.len(), 1, "and so are the others of the batch");
}

pub(super) async fn a_large_batch_is_kept(t: Fixture<'_>) {
    let entries: Vec<TrailEntry> =
        (0..7000).map(|number| entry(&format!("item-{}", number % 7), number, AttemptEnd::Passed)).collect();
    t.record(&entries).await;
    for number in 0..7 {
        let item = format!("item-{number}");
        let expected: Vec<TrailEntry> = entries.iter().filter(|entry| entry.item == item).cloned().collect();
        assert_eq!(t.of_item(&item).await, expected, "the trail of {item}");
    }
}
