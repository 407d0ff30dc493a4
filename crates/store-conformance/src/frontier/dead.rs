//! Cases: dead URLs are listed, replayed and dropped.

use super::fixture::*;

pub(super) async fn paging_goes_on_after_an_entry_that_is_gone((t, id): Crawling<'_>) {
    for host in ["a.example", "b.example", "c.example", "d.example", "e.example"] {
        t.seed(&id, host).await;
        t.end_all(dead).await;
    }
    let listed =
        async |after: Option<&str>, most| expect_ok(t.store.dead(None, after, most).await, "listing");
    let all: Vec<String> = t.dead(None, 10).await.into_iter().map(|dead| dead.item).collect();
    let first = listed(None, 2).await;
    assert!(first.urls.iter().map(|dead| &dead.item).eq(&all[..2]), "the oldest: {first:?}");
    assert_eq!(t.replay(&all[..2]).await, [true, true], "both were dead");
    let rest = listed(first.next.as_deref(), 10).await.urls;
    let rest: Vec<String> = rest.into_iter().map(|dead| dead.item).collect();
    assert_eq!(rest, all[2..], "the others, though the first ones are gone");
}
