//! Cases: the version of a page that was crawled last counts, and a removal counts as a version.

use super::fixture::*;
use crawlway_store::pages::precedence::MAX_CLOCK_SKEW;

const URL: &str = "https://a.example/";

pub(super) async fn an_older_page_does_not_replace_a_newer_one(mut t: Fixture<'_>) {
    let elsewhere = t.another_handle().await;
    let [old, new, newest] = [(1, "lighthouse"), (2, "submarine"), (3, "balloon")]
        .map(|(second, text)| crawled(at(second), page(URL, text)));
    t.write(from_ref(&new)).await;
    t.write(&[old.clone(), page("https://b.example/", "another")]).await;
    assert_eq!(t.get(URL).await.as_ref(), Some(&new), "the newer one stays");
    assert_eq!(t.with_word("lighthouse").await, [""; 0], "the older one cannot be found");
    assert_eq!(t.with_word("submarine").await, [URL], "the newer one can");
    assert_eq!(t.count().await, 2, "the other page of the batch is stored");
    expect_ok(elsewhere.write([newest.clone()].into()).await, "writing elsewhere");
    expect_ok(elsewhere.write([new].into()).await, "writing elsewhere");
    t.write(&[old]).await;
    assert_eq!(t.get(URL).await, Some(newest), "the newest one, whichever handle wrote it");
}

pub(super) async fn of_two_in_a_batch_the_one_crawled_later_counts(t: Fixture<'_>) {
    let versions = [(2, "second"), (3, "third"), (1, "first")]
        .map(|(second, text)| crawled(at(second), page(URL, text)));
    t.write(&versions).await;
    assert_eq!(t.get(URL).await.as_ref(), Some(&versions[1]), "the one crawled last, wherever it stands");
    assert_eq!(t.count().await, 1, "each URL counts once");
}

pub(super) async fn a_time_far_ahead_counts_as_the_time_of_receipt(t: Fixture<'_>) {
    let before = Timestamp::now();
    let (soon, late) = (before + MAX_CLOCK_SKEW / 2, before + Duration::from_secs(3600));
    let near = crawled(soon, page("https://b.example/", "near"));
    t.write(&[crawled(late, page(URL, "far")), near.clone()]).await;
    let kept = t.get(URL).await.map(|page| page.crawled_at);
    let received = before..=Timestamp::now();
    assert!(kept.is_some_and(|at| received.contains(&at)), "{kept:?} is when it was received");
    assert_eq!(t.get(&near.url).await.as_ref(), Some(&near), "clocks may differ by some minutes");
    let next = crawled(soon, page(URL, "next"));
    t.write(from_ref(&next)).await;
    assert_eq!(t.get(URL).await, Some(next), "it keeps no later page out");
}

pub(super) async fn a_removed_page_is_brought_back_by_a_newer_one_only(mut t: Fixture<'_>) {
    let elsewhere = t.another_handle().await;
    // The second one was crawled ahead of our clock: its own message must not bring it back either.
    for old in [page(URL, "lighthouse"), crawled_anew(page("https://b.example/", "lighthouse"))] {
        t.write(from_ref(&old)).await;
        assert_eq!(t.remove(&[&old.url]).await, 1, "it was there");
        t.write(from_ref(&old)).await;
        expect_ok(elsewhere.write([old.clone()].into()).await, "writing elsewhere");
        assert_eq!((t.get(&old.url).await, t.count().await), (None, 0), "its redelivery does not revive it");
        assert_eq!(t.with_word("lighthouse").await, [""; 0], "it cannot be found");
        assert_eq!(t.scan(None, 10).await, [], "it is in no scan");
        assert_eq!(t.matching("after:2001-01-01", 10).await, [""; 0], "it is in no list");
        assert_eq!(t.remove(&[&old.url]).await, 0, "it is not removed twice");
        let new = crawled(
            old.crawled_at.max(Timestamp::now()) + Duration::from_secs(1),
            page(&old.url, "submarine"),
        );
        t.write(from_ref(&new)).await;
        assert_eq!(t.get(&old.url).await.as_ref(), Some(&new), "a newer one does");
        assert_eq!((t.remove(&[&old.url]).await, t.count().await), (1, 0), "it is removed again");
    }
}

pub(super) async fn a_removal_counts_for_messages_that_are_still_to_come(t: Fixture<'_>) {
    assert_eq!(t.remove(&[URL]).await, 0, "there is no page yet");
    t.write(&[page(URL, "before"), page("https://b.example/", "another")]).await;
    assert_eq!((t.get(URL).await, t.count().await), (None, 1), "it was crawled before the removal");
    let new = crawled_anew(page(URL, "after"));
    t.write(&[page(URL, "before"), new.clone(), page(URL, "before")]).await;
    assert_eq!(t.get(URL).await, Some(new), "and this one after it");
}

pub(super) async fn a_removal_leaves_a_page_crawled_after_it(t: Fixture<'_>) {
    let remove = async |at| expect_ok(t.store.remove(&[URL.to_owned()], Some(at)).await, "removing");
    let [old, new, newest] = [1, 2, 3].map(|second| crawled(at(second), page(URL, "text")));
    t.write(from_ref(&new)).await;
    assert_eq!(remove(at(1)).await, 0, "it was crawled later");
    assert_eq!(t.get(URL).await.as_ref(), Some(&new), "it stays, however late the removal comes");
    assert_eq!(remove(at(2)).await, 1, "it is gone");
    t.write(&[old, new.clone()]).await;
    assert_eq!(t.get(URL).await, None, "neither is newer than the removal");
    assert_eq!(remove(at(1)).await, 0, "an older removal changes nothing");
    t.write(&[new]).await;
    assert_eq!(t.get(URL).await, None, "the later removal counts");
    t.write(from_ref(&newest)).await;
    assert_eq!(t.get(URL).await, Some(newest), "this one is newer");
}

pub(super) async fn the_order_of_time_survives_a_reopening(mut t: Fixture<'_>) {
    let (old, new) = (crawled(at(1), page(URL, "old")), crawled(at(2), page(URL, "new")));
    let gone = page("https://b.example/", "gone");
    let never = page("https://c.example/", "never");
    t.write(&[new.clone(), gone.clone()]).await;
    t.remove(&[&gone.url]).await;
    t.remove(&[&never.url]).await;
    for _ in 0..2 {
        t = t.reopened().await;
        t.write(&[old.clone(), gone.clone(), never.clone()]).await;
        assert_eq!(t.scan(None, 10).await, from_ref(&new), "the newer page, and nothing removed");
    }
    let back = crawled_anew(gone);
    t.write(from_ref(&back)).await;
    t = t.reopened().await;
    assert_eq!(t.scan(None, 10).await, [new, back], "a newer one comes back");
}
