//! Cases: expiry of blobs, for stores that delete them themselves.

use super::fixture::*;

const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn expired_blobs_are_deleted_and_others_kept(mut t: Fixture<'_>) {
    if t.harness.expires_by_itself() {
        return;
    }
    t.put("raw/old/1.html", "old").await;
    t.put("raw/old/2.html", "old").await;
    t.pass(DAY * 15).await;
    t.put("raw/old/2.html", "replaced").await;
    t.put("raw/new/1.html", "new").await;
    t.pass(DAY * 15 - Duration::from_secs(1)).await;
    assert_eq!(expect_ok(t.store.apply_retention().await, "sweeping"), 0, "a second too early");
    t.pass(Duration::from_secs(1)).await;
    assert_eq!(expect_ok(t.store.apply_retention().await, "sweeping"), 1, "after 30 days");
    assert_eq!(t.list("", None, 10).await.0, ["raw/new/1.html", "raw/old/2.html"]);
    t.pass(DAY * 15).await;
    assert_eq!(expect_ok(t.store.apply_retention().await, "sweeping"), 2);
    assert_eq!(t.list("", None, 10).await.0, [""; 0]);
    t.put("raw/old/1.html", "again").await;
    assert_eq!(t.read("raw/old/1.html").await.as_deref(), Some("again"));
}

pub(super) async fn applying_the_retention_keeps_what_is_new(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "one").await;
    for _ in 0..2 {
        assert_eq!(expect_ok(t.store.apply_retention().await, "applying the retention"), 0);
    }
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("one"));
}
