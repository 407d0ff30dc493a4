//! Cases: several handles, and races.

use super::fixture::*;

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let other = t.another_handle().await;
    t.put("raw/acme/1.html", "one").await;
    assert_eq!(read(&*other, &key("raw/acme/1.html")).await.as_deref(), Some("one"));
    expect_ok(other.delete(&key("raw/acme/1.html")).await, "deleting");
    assert_eq!(t.read("raw/acme/1.html").await, None);
}

pub(super) async fn blobs_survive_a_reopening(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "one").await;
    let t = t.reopened().await;
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("one"));
}

pub(super) async fn an_open_store_is_ready(t: Fixture<'_>) {
    expect_ok(t.store.ready().await, "being ready");
    assert!(!t.store.location().is_empty());
}

pub(super) async fn racing_puts_leave_one_whole_blob(mut t: Fixture<'_>) {
    let content = |worker: usize| worker.to_string().repeat(10_000 * (worker + 1));
    t.race(8, |worker, store| async move {
        let put = store.put(&key("raw/acme/1.html"), &metadata("a"), once(content(worker))).await;
        expect_ok(put, "putting");
    })
    .await;
    let found = t.read("raw/acme/1.html").await.expect("it is there");
    assert!((0..8).any(|worker| content(worker) == found), "it is one of them");
    assert_eq!(t.list("", None, 10).await.0.len(), 1);
}

pub(super) async fn readers_see_whole_blobs_while_they_are_replaced(mut t: Fixture<'_>) {
    t.put("raw/acme/1.html", &"0".repeat(1000)).await;
    let name = key("raw/acme/1.html");
    t.race(6, move |worker, store| {
        let name = name.clone();
        async move {
            for round in 0..30 {
                if worker % 2 == 0 {
                    let content = (worker + 1).to_string().repeat(1000 + round);
                    expect_ok(store.put(&name, &metadata("a"), once(content)).await, "putting");
                } else {
                    // The content is verified by its hash.
                    let found = read(&*store, &name).await.expect("it is never missing");
                    assert!(found.len() >= 1000);
                }
            }
        }
    })
    .await;
}
