//! Seen URLs and trails on both databases.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    End, SeenUrls, Timestamp, TrailEntry, Trails,
    seen::{Claim, Claimed, Seen},
};
use harness::Ground;
use std::time::Duration;

const TERM: Duration = Duration::from_secs(10);

fn claim(url: &str, owner: &str) -> Claim {
    Claim::new(url, owner)
}

fn seen(url: &str, owner: &str) -> Seen {
    Seen { url: url.to_owned(), owner: owner.to_owned(), ttl: TERM * 2 }
}

fn entry(item: &str, subject: Option<&str>, at: u64, end: End) -> TrailEntry {
    TrailEntry {
        item: item.to_owned(),
        subject: subject.map(str::to_owned),
        flow: "search".to_owned(),
        stage: "crawl".to_owned(),
        at: Timestamp::from_millis(at),
        end,
        outcome: "published".to_owned(),
        attempt: 1,
        took_ms: 3,
        worker: "w".to_owned(),
        replays: 0,
        note: None,
        error: None,
    }
}

on_both!(
    a_url_is_claimed_once_and_seen_for_a_time,
    claims_of_one_batch_count_one_after_the_other,
    a_page_is_marked_whatever_became_of_its_claim,
    what_is_over_is_swept,
    many_claim_the_same_and_one_gets_it,
    trails_are_found_by_item_and_by_subject,
    open_trails_are_known,
    old_entries_go_and_their_subjects_with_them,
);

async fn a_url_is_claimed_once_and_seen_for_a_time(ground: &Ground) {
    let store = ground.open().await;
    let now = ground.clock.now();
    let taken = |owner: &str, until| Claimed::Taken { owner: owner.to_owned(), until };
    assert_eq!(store.claim(&[claim("u", "a")], TERM).await.unwrap(), [Claimed::Ours]);
    assert_eq!(store.claim(&[claim("u", "b")], TERM).await.unwrap(), [taken("a", now + TERM)]);
    ground.clock.advance(TERM / 2);
    assert_eq!(store.claim(&[claim("u", "a")], TERM).await.unwrap(), [Claimed::Ours]);
    store.release(&[claim("u", "b")]).await.unwrap();
    ground.clock.advance(TERM / 2);
    assert_eq!(store.claim(&[claim("u", "b")], TERM).await.unwrap(), [taken("a", now + TERM * 3 / 2)]);
    store.release(&[claim("u", "a")]).await.unwrap();
    assert_eq!(store.claim(&[claim("u", "b")], TERM).await.unwrap(), [Claimed::Ours]);
    store.mark(&[seen("u", "b"), seen("u", "c\0")]).await.unwrap();
    let until = ground.clock.now() + TERM * 2;
    let was_seen = Claimed::Seen { owner: "c\u{fffd}".to_owned(), at: Some(until - TERM * 2), until };
    assert_eq!(store.claim(&[claim("u", "b")], TERM).await.unwrap(), [was_seen]);
    store.release(&[claim("u", "c")]).await.unwrap();
    assert_eq!(store.forget(&["u".to_owned(), "u".to_owned(), "v".to_owned()]).await.unwrap(), 1);
    assert_eq!(store.claim(&[claim("u", "d")], TERM).await.unwrap(), [Claimed::Ours]);
}

async fn claims_of_one_batch_count_one_after_the_other(ground: &Ground) {
    let store = ground.open().await;
    store.mark(&[seen("s", "x")]).await.unwrap();
    let claims = [claim("u", "a"), claim("u", "b"), claim("u", "a"), claim("s", "a"), claim("v", "b")];
    let answers = store.claim(&claims, TERM).await.unwrap();
    let now = ground.clock.now();
    assert_eq!(answers[0], Claimed::Ours);
    assert_eq!(answers[1], Claimed::Taken { owner: "a".to_owned(), until: now + TERM });
    assert_eq!(answers[2], Claimed::Ours);
    assert_eq!(answers[3], Claimed::Seen { owner: "x".to_owned(), at: Some(now), until: now + TERM * 2 });
    assert_eq!(answers[4], Claimed::Ours);
    assert_eq!(store.claim(&[], TERM).await.unwrap(), []);
}

async fn a_page_is_marked_whatever_became_of_its_claim(ground: &Ground) {
    let store = ground.open().await;
    for url in ["kept", "forgotten", "released", "swept"] {
        assert_eq!(store.claim(&[claim(url, "a")], TERM).await.unwrap(), [Claimed::Ours]);
    }
    store.forget(&["forgotten".to_owned()]).await.unwrap();
    store.release(&[claim("released", "a")]).await.unwrap();
    let marked = ["kept", "forgotten", "released", "never claimed"];
    store.mark(&marked.map(|url| seen(url, "a"))).await.unwrap();
    ground.clock.advance(TERM);
    assert_eq!(store.sweep(10).await.unwrap(), 1);
    store.mark(&[seen("swept", "a")]).await.unwrap();
    for url in marked.into_iter().chain(["swept"]) {
        let claimed = store.claim(&[claim(url, "b")], TERM).await.unwrap();
        assert!(matches!(&claimed[..], [Claimed::Seen { owner, .. }] if owner == "a"), "{url}: {claimed:?}");
    }
    assert_eq!(store.forget(&marked.map(str::to_owned)).await.unwrap(), 4, "each is there once");
}

async fn what_is_over_is_swept(ground: &Ground) {
    let store = ground.open().await;
    let all: Vec<Seen> = (0..5).map(|n| seen(&n.to_string(), "a")).collect();
    store.mark(&all).await.unwrap();
    assert_eq!(store.sweep(10).await.unwrap(), 0);
    ground.clock.advance(TERM * 2);
    assert_eq!(store.forget(&["0".to_owned()]).await.unwrap(), 0);
    assert_eq!((store.sweep(3).await.unwrap(), store.sweep(3).await.unwrap()), (3, 1));
}

async fn many_claim_the_same_and_one_gets_it(ground: &Ground) {
    let store = ground.open().await;
    let mut tasks = Vec::new();
    for owner in 0..8 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let mut urls: Vec<usize> = (0..100).collect();
            if owner % 2 == 0 {
                urls.reverse();
            }
            let claims: Vec<Claim> =
                urls.iter().map(|url| claim(&url.to_string(), &owner.to_string())).collect();
            let answers = store.claim(&claims, TERM).await.unwrap();
            answers.iter().filter(|answer| **answer == Claimed::Ours).count()
        }));
    }
    let mut ours = 0;
    for task in tasks {
        ours += task.await.unwrap();
    }
    assert_eq!(ours, 100);
}

async fn trails_are_found_by_item_and_by_subject(ground: &Ground) {
    let store = ground.open().await;
    let mut odd = entry("a", Some("u"), 5, End::Retried);
    odd.error = Some("x\0y".to_owned());
    let first = [entry("a", Some("u"), 5, End::Deferred), odd, entry("a", None, 4, End::Waited)];
    store.record(&first).await.unwrap();
    store.record(&[entry("b", Some("u"), 9, End::Done), entry("c", Some("v"), 7, End::Done)]).await.unwrap();
    let trail = store.of_item("a").await.unwrap();
    assert_eq!(
        trail.iter().map(|entry| entry.end).collect::<Vec<_>>(),
        [End::Waited, End::Deferred, End::Retried]
    );
    assert_eq!(trail[2].error.as_deref(), Some("x\u{fffd}y"));
    assert_eq!((trail[0].subject.as_deref(), trail[1].subject.as_deref()), (None, Some("u")));
    let of_subject = store.of_subject("u", 10).await.unwrap();
    assert_eq!(of_subject.iter().map(|trail| trail[0].item.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(of_subject[1], trail);
    assert_eq!(store.of_subject("u", 1).await.unwrap().len(), 1);
    assert_eq!(
        (store.of_item("x").await.unwrap().len(), store.of_subject("x", 1).await.unwrap().len()),
        (0, 0)
    );
}

async fn open_trails_are_known(ground: &Ground) {
    let store = ground.open().await;
    let entries = [
        entry("c", None, 5, End::Passed),
        entry("a", None, 5, End::Dead),
        entry("a", None, 6, End::Replayed),
        entry("b", None, 5, End::Passed),
        entry("b", None, 6, End::Done),
        entry("d", None, 5, End::Passed),
        entry("d", None, 5, End::Done),
    ];
    store.record(&entries).await.unwrap();
    assert_eq!(store.open(10).await.unwrap(), ["a", "c"]);
    assert_eq!(store.open(1).await.unwrap(), ["a"]);
}

async fn old_entries_go_and_their_subjects_with_them(ground: &Ground) {
    let store = ground.open().await;
    for n in 0..10 {
        store.record(&[entry(&format!("i{n}"), Some("u"), n, End::Done)]).await.unwrap();
    }
    store.record(&[entry("i0", Some("u"), 100, End::Replayed)]).await.unwrap();
    assert_eq!(store.expire(Timestamp::from_millis(8), 5).await.unwrap(), 5);
    assert_eq!(store.expire(Timestamp::from_millis(8), 5).await.unwrap(), 3);
    assert_eq!(store.expire(Timestamp::from_millis(8), 5).await.unwrap(), 0);
    let left = store.of_subject("u", 10).await.unwrap();
    assert_eq!(left.iter().map(|trail| trail[0].item.as_str()).collect::<Vec<_>>(), ["i0", "i9", "i8"]);
    assert_eq!(left[0][0].subject.as_deref(), Some("u"));
}

/// Whatever is inserted into `seen` then fails at the commit, and no sooner.
const FAILING_COMMITS: &str =
    "CREATE TABLE refusals (num INTEGER REFERENCES crawls (num) DEFERRABLE INITIALLY DEFERRED);
     CREATE TRIGGER refuse AFTER INSERT ON seen BEGIN INSERT INTO refusals VALUES (-1); END";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_of_a_page_whose_claim_was_undone_lands_on_no_other_page() {
    let ground = Ground::sqlite().await;
    let store = ground.open().await;
    ground.execute(FAILING_COMMITS).await;
    let undone = store.claim(&[claim("a", "first")], TERM).await;
    assert!(undone.is_err(), "the commit is refused: {undone:?}");
    // Whoever comes next undoes it.
    assert_eq!(store.known(&["a".to_owned()]).await.unwrap(), [false]);
    ground.execute("DROP TRIGGER refuse").await;
    // Its row gets the number that was given back.
    assert_eq!(store.claim(&[claim("b", "second")], TERM).await.unwrap(), [Claimed::Ours]);
    store.mark(&[seen("a", "first")]).await.unwrap();
    let other = store.claim(&[claim("b", "third")], TERM).await.unwrap();
    assert!(matches!(&other[..], [Claimed::Taken { owner, .. }] if owner == "second"), "{other:?}");
    let own = store.claim(&[claim("a", "third")], TERM).await.unwrap();
    assert!(matches!(&own[..], [Claimed::Seen { owner, .. }] if owner == "first"), "{own:?}");
}
