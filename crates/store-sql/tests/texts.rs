//! Texts and cursors that the conformance suites leave to the backend.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    AttemptEnd, Frontier, SeenUrls, TrailEntry, Trails,
    frontier::{PageFacts, UrlVerdict},
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use harness::{TestDatabase, crawl, look, trail_entry, url};
use std::time::Duration;

on_both!(
    a_nul_becomes_the_replacement_character,
    a_cursor_that_cannot_be_read_is_refused,
    a_pending_url_behind_another_is_due_at_the_end_of_its_lease,
);

async fn a_nul_becomes_the_replacement_character(database: &TestDatabase) {
    let store = database.open().await;
    let c = crawl(&store, "c", None).await;
    let odd = "\0 \u{1} \" \\ ' {rows} $1 %s \u{202e} 😀 \u{ffff}";
    let stored = odd.replace('\0', "\u{fffd}");
    store.add(&c, &[url("a", odd)]).await.unwrap();
    let taken = store.claim_next(1, 1).await.unwrap();
    assert_eq!(taken[0].url, format!("https://a/{stored}"));
    let rest = Duration::ZERO;
    let failed = UrlVerdict::Retry { after: rest, error: odd.to_owned(), host_delay: rest };
    store.settle(&[(taken[0].receipt, failed)]).await.unwrap();
    let taken = store.claim_next(1, 1).await.unwrap();
    assert_eq!(taken[0].last_error.as_deref(), Some(stored.as_str()));
    let facts = PageFacts { canonical: Some(odd.to_owned()), ..PageFacts::default() };
    let done = UrlVerdict::Done { outcome: odd.to_owned(), facts, host_delay: rest };
    store.settle(&[(taken[0].receipt, done)]).await.unwrap();
    assert_eq!(look(&store, &c).await.counts.outcomes[&stored], 1);
    let found = store.find(&format!("https://a/{odd}")).await.unwrap();
    assert_eq!(found[0].canonical.as_ref(), Some(&stored));

    let ttl = Duration::from_secs(60);
    store.mark(&[SeenUrl { url: "u".to_owned(), owner: odd.to_owned(), ttl }]).await.unwrap();
    let claimed = store.claim(&[Claim::new("u", "other")], ttl).await.unwrap();
    assert!(matches!(&claimed[..], [ClaimOutcome::Seen { owner, .. }] if *owner == stored), "{claimed:?}");

    let entry = TrailEntry { error: Some(odd.to_owned()), ..trail_entry("i", None, 5, AttemptEnd::Retried) };
    store.append(&[entry]).await.unwrap();
    assert_eq!(store.of_item("i").await.unwrap()[0].error.as_ref(), Some(&stored));
}

async fn a_cursor_that_cannot_be_read_is_refused(database: &TestDatabase) {
    let refused = database.open().await.dead(None, Some("x"), 1).await.unwrap_err();
    assert!(refused.to_string().contains("cursor"), "{refused}");
}

async fn a_pending_url_behind_another_is_due_at_the_end_of_its_lease(database: &TestDatabase) {
    let store = database.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("a", "2")]).await.unwrap();
    let taken = store.claim_next(1, 1).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), Some(taken[0].lease_until));
}
