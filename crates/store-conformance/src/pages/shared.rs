//! Cases: handles share their state, it survives a reopening, and concurrent writers lose nothing.

use super::fixture::*;

const URL: &str = "https://a.example/";

pub(super) async fn handles_share_their_pages(mut t: Fixture<'_>) {
    let second = t.another_handle().await;
    t.write(&[page(URL, "before"), page("https://b.example/", "x")]).await;
    expect_ok(second.write([page(URL, "after")].into()).await, "writing elsewhere");
    assert_eq!(t.get(URL).await, Some(page(URL, "after")), "it was replaced elsewhere");
    assert_eq!(expect_ok(second.count().await, "counting elsewhere"), 2, "both are there too");
    assert_eq!(t.remove(&[URL]).await, 1, "it is there");
    assert_eq!(expect_ok(second.get(URL).await, "reading elsewhere"), None, "it was removed elsewhere");
}

pub(super) async fn pages_survive_a_reopening(mut t: Fixture<'_>) {
    t.write(&[
        page(URL, "before"),
        page("https://b.example/", "lighthouse"),
        page("https://c.example/", "x"),
    ])
    .await;
    t.write(&[page(URL, "after")]).await;
    t.remove(&["https://c.example/"]).await;
    for _ in 0..2 {
        t = t.reopened().await;
        let kept = t.scan(None, 10).await;
        assert_eq!(kept, [page(URL, "after"), page("https://b.example/", "lighthouse")], "as they were last");
        assert_eq!(t.count().await, 2, "each URL counts once");
        assert_eq!(t.with_word("lighthouse").await, ["https://b.example/"], "they can be found");
    }
    t.write(&[page(URL, "later")]).await;
    t = t.reopened().await;
    assert_eq!((t.get(URL).await, t.count().await), (Some(page(URL, "later")), 2), "replaced once more");
}

pub(super) async fn pages_survive_a_close(mut t: Fixture<'_>) {
    t.write(&[page(URL, "lighthouse")]).await;
    expect_ok(t.store.close().await, "closing");
    t = t.reopened().await;
    assert_eq!(t.get(URL).await, Some(page(URL, "lighthouse")), "it is there");
    t.write(&[page(URL, "submarine")]).await;
    assert_eq!(t.with_word("submarine").await, [URL], "files and locks were let go of");
}

pub(super) async fn racing_writers_lose_nothing(mut t: Fixture<'_>) {
    const WRITERS: usize = 6;
    const EACH: usize = 10;
    t.race(WRITERS, |writer, index| async move {
        for number in 0..EACH {
            let own = page(&format!("https://a.example/{writer}/{number}"), "own");
            expect_ok(index.write([own, page(URL, "shared")].into()).await, "writing in a race");
        }
    })
    .await;
    assert_eq!(t.count().await, (WRITERS * EACH + 1) as u64, "the shared page is there once, all others too");
    assert_eq!(t.scan_all(7).await.len(), WRITERS * EACH + 1, "all can be scanned");
}
