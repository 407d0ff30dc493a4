//! Cases: retention of entries.

use super::fixture::*;

pub(super) async fn retention_removes_only_older_entries(t: Fixture<'_>) {
    let late = entry("one", 5, AttemptEnd::Passed);
    t.record(&[entry("one", 4, AttemptEnd::Passed), late.clone(), entry("two", 3, AttemptEnd::Done)]).await;
    assert_eq!(t.expire(5, 100).await, 2, "two are from before");
    assert_eq!(t.of_item("one").await, from_ref(&late), "an entry of that very time stays");
    assert_eq!(t.of_item("two").await, [], "nothing is left of it");
    assert_eq!(t.of_subject("https://two.example/", 10).await, [[]; 0], "by subject neither");
    assert_eq!(t.of_subject("https://one.example/", 10).await, [[late]], "what stays can be found");
    assert_eq!(t.expire(5, 100).await, 0, "nothing is left from before");
}

pub(super) async fn retention_removes_no_more_than_asked_oldest_first(t: Fixture<'_>) {
    for second in [3, 1, 4, 0, 2] {
        t.record(&[entry("one", second, AttemptEnd::Retried)]).await;
    }
    assert_eq!(t.expire(9, 0).await, 0, "none was asked for");
    for (left, gone) in [(3, 2), (1, 2), (0, 1), (0, 0)] {
        assert_eq!(t.expire(9, 2).await, gone, "how many went");
        let times: Vec<_> = t.of_item("one").await.iter().map(|entry| entry.at).collect();
        let expected: Vec<_> = (5 - left..5).map(at).collect();
        assert_eq!(times, expected, "the latest stay longest");
    }
}

pub(super) async fn retention_of_entries_of_one_time_is_in_the_order_of_the_trail(t: Fixture<'_>) {
    let named = |outcome: &str, end| TrailEntry { outcome: outcome.to_owned(), ..entry("one", 5, end) };
    t.record(&[named("last", AttemptEnd::Done), named("z", AttemptEnd::Passed)]).await;
    t.record(&[named("a", AttemptEnd::Retried), named("m", AttemptEnd::Passed)]).await;
    for left in [&["a", "m", "last"][..], &["m", "last"], &["last"], &[]] {
        assert_eq!(t.expire(9, 1).await, 1, "one at a time");
        let trail = t.of_item("one").await;
        let outcomes: Vec<&str> = trail.iter().map(|entry| entry.outcome.as_str()).collect();
        assert_eq!(outcomes, left, "the first of the trail goes first");
    }
}

pub(super) async fn an_expired_trail_is_not_open(t: Fixture<'_>) {
    t.record(&[
        entry("one", 1, AttemptEnd::Passed),
        entry("two", 1, AttemptEnd::Dead),
        entry("two", 9, AttemptEnd::Replayed),
    ])
    .await;
    assert_eq!(t.open_items(10).await, ["one", "two"], "both are under way");
    t.expire(5, 100).await;
    assert_eq!(t.open_items(10).await, ["two"], "nothing is known of the other any more");
}

pub(super) async fn expiring_in_parts_opens_nothing(t: Fixture<'_>) {
    for item in ["a", "b", "c"] {
        t.record(&[
            entry(item, 3, AttemptEnd::Done),
            entry(item, 2, AttemptEnd::Passed),
            entry(item, 1, AttemptEnd::Retried),
        ])
        .await;
    }
    for left in (0..9).rev() {
        assert_eq!(t.expire(9, 1).await, 1, "one at a time");
        assert_eq!(t.open_items(10).await, [""; 0], "all have ended, with {left} entries left");
    }
}
