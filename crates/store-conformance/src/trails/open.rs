//! Cases: whose trail is open, that is, to whom something is still to happen.

use super::trial::*;

const NOTHING: [&str; 0] = [];

pub(super) async fn what_does_not_close_a_trail_opens_it(t: Trial<'_>) {
    for end in End::ALL.into_iter().filter(|end| !end.closes()) {
        t.record(&[entry(end.as_str(), 1, end)]).await;
    }
    let open = t.open_items(10).await;
    assert_eq!(open, ["deferred", "passed", "replayed", "retried", "waited"], "none of these is an end");
}

pub(super) async fn what_closes_a_trail_closes_it(t: Trial<'_>) {
    for end in End::ALL.into_iter().filter(|end| end.closes()) {
        let item = end.as_str();
        t.record(&[entry(item, 1, End::Retried), entry(item, 2, End::Passed)]).await;
        assert_eq!(t.open_items(10).await, [item], "not ended yet");
        t.record(&[entry(item, 3, end)]).await;
        assert_eq!(t.open_items(10).await, NOTHING, "{end} is an end");
    }
}

pub(super) async fn an_entry_later_than_the_end_opens_it_again(t: Trial<'_>) {
    t.record(&[entry("one", 1, End::Dead)]).await;
    t.record(&[entry("one", 2, End::Replayed)]).await;
    assert_eq!(t.open_items(10).await, ["one"], "it was replayed");
    t.record(&[entry("one", 3, End::Done)]).await;
    assert_eq!(t.open_items(10).await, NOTHING, "it has ended again");
}

pub(super) async fn time_counts_and_not_the_order_of_adding(t: Trial<'_>) {
    t.record(&[entry("one", 5, End::Done), entry("two", 5, End::Passed)]).await;
    t.record(&[entry("one", 4, End::Passed), entry("two", 4, End::Dead)]).await;
    assert_eq!(t.open_items(10).await, ["two"], "a late report of what was before an end opens nothing");
}

pub(super) async fn an_end_of_the_same_time_closes(t: Trial<'_>) {
    t.record(&[entry("one", 5, End::Done), entry("two", 5, End::Passed)]).await;
    t.record(&[entry("one", 5, End::Passed), entry("two", 5, End::Done)]).await;
    assert_eq!(t.open_items(10).await, NOTHING, "nothing is later than the end");
}

pub(super) async fn open_items_are_in_order_of_their_octets(t: Trial<'_>) {
    let items = ["-", "0", "10", "9", "B", "Z", "_", "a", "a b", "a-b", "aB", "ab", "b", "\u{e9}"];
    let entries: Vec<_> = items.iter().rev().map(|item| entry(item, 1, End::Waited)).collect();
    t.record(&entries).await;
    assert_eq!(t.open_items(100).await, items, "in order of id, as octets have it");
}

pub(super) async fn no_more_open_items_than_asked(t: Trial<'_>) {
    for number in (0..5).rev() {
        let item = format!("item-{number}");
        t.record(&[entry(&item, 1, End::Passed), entry(&item, 2, End::Retried)]).await;
        t.record(&[entry(&format!("done-{number}"), 3, End::Done)]).await;
    }
    for most in [0, 1, 3, 5, 6] {
        let expected: Vec<String> = (0..5).take(most).map(|number| format!("item-{number}")).collect();
        assert_eq!(t.open_items(most).await, expected, "the first {most}");
    }
}
