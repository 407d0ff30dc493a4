//! The cache of claims on SQLite: a mark lands on the right row, whatever became of the claim.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    SeenUrls,
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use harness::TestDatabase;
use std::time::Duration;

const TERM: Duration = Duration::from_secs(10);

fn claim(url: &str, owner: &str) -> Claim {
    Claim::new(url, owner)
}

fn seen(url: &str, owner: &str) -> SeenUrl {
    SeenUrl { url: url.to_owned(), owner: owner.to_owned(), ttl: TERM * 2 }
}

on_both!(a_page_is_marked_whatever_became_of_its_claim);

async fn a_page_is_marked_whatever_became_of_its_claim(database: &TestDatabase) {
    let store = database.open().await;
    for url in ["kept", "forgotten", "released", "swept"] {
        assert_eq!(store.claim(&[claim(url, "a")], TERM).await.unwrap(), [ClaimOutcome::Granted]);
    }
    store.forget(&["forgotten".to_owned()]).await.unwrap();
    store.release(&[claim("released", "a")]).await.unwrap();
    let marked = ["kept", "forgotten", "released", "never claimed"];
    store.mark(&marked.map(|url| seen(url, "a"))).await.unwrap();
    database.clock.advance(TERM);
    assert_eq!(store.purge_expired(10).await.unwrap(), 1);
    store.mark(&[seen("swept", "a")]).await.unwrap();
    for url in marked.into_iter().chain(["swept"]) {
        let claimed = store.claim(&[claim(url, "b")], TERM).await.unwrap();
        assert!(
            matches!(&claimed[..], [ClaimOutcome::Seen { owner, .. }] if owner == "a"),
            "{url}: {claimed:?}"
        );
    }
    assert_eq!(store.forget(&marked.map(str::to_owned)).await.unwrap(), 4, "each is there once");
}

/// Makes every insert into `seen` fail at the commit, and no sooner.
const FAILING_COMMITS: &str =
    "CREATE TABLE refusals (num INTEGER REFERENCES crawls (num) DEFERRABLE INITIALLY DEFERRED);
     CREATE TRIGGER refuse AFTER INSERT ON seen BEGIN INSERT INTO refusals VALUES (-1); END";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_after_a_claim_that_was_rolled_back_lands_on_no_other_page() {
    let database = TestDatabase::sqlite().await;
    let store = database.open().await;
    database.execute(FAILING_COMMITS).await;
    let undone = store.claim(&[claim("a", "first")], TERM).await;
    assert!(undone.is_err(), "the commit is refused: {undone:?}");
    // The next call rolls it back.
    assert_eq!(store.contains(&["a".to_owned()]).await.unwrap(), [false]);
    database.execute("DROP TRIGGER refuse").await;
    // Its row gets the number of the one that was rolled back.
    assert_eq!(store.claim(&[claim("b", "second")], TERM).await.unwrap(), [ClaimOutcome::Granted]);
    store.mark(&[seen("a", "first")]).await.unwrap();
    let other = store.claim(&[claim("b", "third")], TERM).await.unwrap();
    assert!(matches!(&other[..], [ClaimOutcome::Taken { owner, .. }] if owner == "second"), "{other:?}");
    let own = store.claim(&[claim("a", "third")], TERM).await.unwrap();
    assert!(matches!(&own[..], [ClaimOutcome::Seen { owner, .. }] if owner == "first"), "{own:?}");
}
