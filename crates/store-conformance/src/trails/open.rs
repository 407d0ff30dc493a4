//! Cases: open trails, whose latest entry does not end them.

use super::fixture::*;

pub(super) async fn a_trail_is_open_until_its_latest_entry_closes_it(t: Fixture<'_>) {
    // Batches of entries with their seconds, and whether the trail is open after them.
    type Batches<'a> = &'a [&'a [(u64, AttemptEnd)]];
    let rows: &[(&str, Batches<'_>, bool)] = &[
        ("replayed after its end", &[&[(1, AttemptEnd::Dead)], &[(2, AttemptEnd::Replayed)]], true),
        (
            "ended again",
            &[&[(1, AttemptEnd::Dead)], &[(2, AttemptEnd::Replayed)], &[(3, AttemptEnd::Done)]],
            false,
        ),
        (
            "a late report of what was before the end",
            &[&[(5, AttemptEnd::Done)], &[(4, AttemptEnd::Passed)]],
            false,
        ),
        (
            "a late report of an end before the latest entry",
            &[&[(5, AttemptEnd::Passed)], &[(4, AttemptEnd::Dead)]],
            true,
        ),
        ("an entry at the time of the end", &[&[(5, AttemptEnd::Done)], &[(5, AttemptEnd::Passed)]], false),
        ("an end at the time of an entry", &[&[(5, AttemptEnd::Passed)], &[(5, AttemptEnd::Done)]], false),
    ];
    let opens = [
        AttemptEnd::Deferred,
        AttemptEnd::Passed,
        AttemptEnd::Replayed,
        AttemptEnd::Retried,
        AttemptEnd::Waited,
    ];
    for end in AttemptEnd::ALL {
        let (item, open) = (end.as_str(), opens.contains(&end));
        t.record(&[
            entry(item, 1, AttemptEnd::Retried),
            entry(item, 2, AttemptEnd::Passed),
            entry(item, 3, end),
        ])
        .await;
        assert_eq!(
            t.open_items(99).await.contains(&item.to_owned()),
            open,
            "whether {end} leaves a trail open"
        );
        t.record(&[entry(&format!("only {item}"), 1, end)]).await;
        let only = t.open_items(99).await.contains(&format!("only {item}"));
        assert_eq!(only, open, "whether a trail of nothing but {end} is open");
    }
    for (item, batches, open) in rows {
        for batch in *batches {
            t.record(&batch.iter().map(|(second, end)| entry(item, *second, *end)).collect::<Vec<_>>()).await;
        }
        assert_eq!(t.open_items(99).await.contains(&(*item).to_owned()), *open, "whether it is open: {item}");
    }
}

pub(super) async fn open_items_are_in_order_of_their_octets(t: Fixture<'_>) {
    let items = ["-", "0", "10", "9", "B", "Z", "_", "a", "a b", "a-b", "aB", "ab", "b", "\u{e9}"];
    let entries: Vec<_> = items.iter().rev().map(|item| entry(item, 1, AttemptEnd::Waited)).collect();
    t.record(&entries).await;
    assert_eq!(t.open_items(100).await, items, "in byte order of the ids");
}

pub(super) async fn no_more_open_items_than_asked(t: Fixture<'_>) {
    for number in (0..5).rev() {
        let item = format!("item-{number}");
        t.record(&[entry(&item, 1, AttemptEnd::Passed), entry(&item, 2, AttemptEnd::Retried)]).await;
        t.record(&[entry(&format!("done-{number}"), 3, AttemptEnd::Done)]).await;
    }
    for most in [0, 1, 3, 5, 6] {
        let expected: Vec<String> = (0..5).take(most).map(|number| format!("item-{number}")).collect();
        assert_eq!(t.open_items(most).await, expected, "the first {most}");
    }
}
