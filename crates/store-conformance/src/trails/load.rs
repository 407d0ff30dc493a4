//! Cases: handles share their state, it survives a reopening, and concurrent writers lose nothing.

use super::fixture::*;

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let second = t.another_handle().await;
    let entries = [entry("one", 1, AttemptEnd::Passed), entry("one", 2, AttemptEnd::Retried)];
    t.record(&entries[..1]).await;
    expect_ok(second.append(&entries[1..]).await, "recording elsewhere");
    assert_eq!(t.of_item("one").await, entries, "the trail here");
    let there = expect_ok(second.of_item("one").await, "reading elsewhere");
    assert_eq!(there, entries, "the trail there");
    assert_eq!(expect_ok(second.open_items(10).await, "asking elsewhere"), ["one"], "open there too");
}

pub(super) async fn entries_survive_a_reopening(mut t: Fixture<'_>) {
    let entries = [
        entry("one", 1, AttemptEnd::Passed),
        entry("one", 1, AttemptEnd::Retried),
        entry("one", 1, AttemptEnd::Waited),
    ];
    t.record(&entries[..2]).await;
    t = t.reopened().await;
    t.record(&entries[2..]).await;
    assert_eq!(t.of_item("one").await, entries, "the order they were added in survives too");
    assert_eq!(t.open_items(10).await, ["one"], "still open");
}

pub(super) async fn racing_writers_lose_nothing(mut t: Fixture<'_>) {
    const WRITERS: usize = 8;
    const EACH: u64 = 25;
    t.race(WRITERS, |writer, trails| async move {
        for second in 0..EACH {
            let own = entry(&format!("item-{writer}"), second, AttemptEnd::Retried);
            expect_ok(trails.append(&[own, entry("all", second, AttemptEnd::Passed)]).await, "recording");
        }
    })
    .await;
    for writer in 0..WRITERS {
        let trail = t.of_item(&format!("item-{writer}")).await;
        assert_eq!(trail.len() as u64, EACH, "the whole trail of item-{writer}");
    }
    assert_eq!(
        t.of_item("all").await.len() as u64,
        EACH * WRITERS as u64,
        "the trail that all have added to"
    );
}
