//! Cases: the change feed of a user.

use super::fixture::*;

fn summary(changes: &[Change]) -> Vec<(&str, Option<RequestStatus>)> {
    changes.iter().map(|change| (&*change.request, change.status)).collect()
}

pub(super) async fn each_change_is_in_the_feed(mut t: Fixture<'_>) {
    let email = user("a");
    let requests = t.added(&email, &["r-1", "r-2", "r-3"]).await;
    t.apply(&completed(&requests[1], "7")).await;
    t.apply(&completed(&requests[1], "7")).await;
    t.apply(&failed(&requests[0], "late")).await;
    expect_ok(t.store.delete(&requests[0].key()).await, "deleting");
    t.pass_all_of(POLICY.timeout).await;
    t.expire().await;
    let changes = t.changes(&email, &ChangeId::default()).await;
    let pending = Some(RequestStatus::Pending);
    let expected = [
        ("r-1", pending),
        ("r-2", pending),
        ("r-3", pending),
        ("r-2", Some(RequestStatus::Completed)),
        ("r-1", Some(RequestStatus::Failed)),
        ("r-1", None),
        ("r-3", Some(RequestStatus::Failed)),
    ];
    assert_eq!(summary(&changes), expected, "in order, and each once");
    let distinct: HashSet<&str> = changes.iter().map(|change| &*change.id.0).collect();
    assert_eq!(distinct.len(), changes.len(), "with ids of their own");
}

pub(super) async fn a_reader_goes_on_where_it_was(mut t: Fixture<'_>) {
    let email = user("a");
    let last = async |t: &Fixture<'_>| expect_ok(t.store.last_change(&email).await, "the last change");
    assert_eq!(last(&t).await, ChangeId::default(), "nothing has changed");
    let requests = t.added(&email, &["r-1", "r-2"]).await;
    let changes = t.changes(&email, &ChangeId::default()).await;
    assert_eq!(last(&t).await, changes[1].id);
    assert_eq!(summary(&t.changes(&email, &changes[0].id).await), [("r-2", Some(RequestStatus::Pending))]);
    assert_eq!(t.changes(&email, &changes[1].id).await, []);
    let other = t.another_handle().await;
    expect_ok(other.apply(&[completed(&requests[0], "7")]).await, "applying");
    let position = [(email.clone(), changes[1].id.clone())];
    let new = t.changes(&email, &changes[1].id).await;
    assert_eq!(summary(&new), [("r-1", Some(RequestStatus::Completed))], "made by another process");
    assert_eq!(expect_ok(other.changes(&position, 10).await, "reading")[0], new, "read by another process");
    let first = expect_ok(t.store.changes(&[(email.clone(), ChangeId::default())], 2).await, "reading");
    assert_eq!(first[0], changes, "no more than asked");
}

pub(super) async fn the_feed_is_that_of_one_user(t: Fixture<'_>) {
    let (email, other) = (user("a"), user("b"));
    t.added(&email, &["r-1"]).await;
    t.added(&other, &["r-2"]).await;
    let feeds = [other, user("c"), email].map(|email| (email, ChangeId::default()));
    let changes = expect_ok(t.store.changes(&feeds, 10).await, "reading");
    let ids: Vec<Vec<&str>> =
        changes.iter().map(|feed| feed.iter().map(|change| &*change.request).collect()).collect();
    assert_eq!(ids, [vec!["r-2"], vec![], vec!["r-1"]], "one feed each, in order");
}

pub(super) async fn a_position_beyond_the_feed_is_its_start(t: Fixture<'_>) {
    let email = user("a");
    t.added(&email, &["r-1"]).await;
    for invalid in ["", "x", "-", "1 2", "$"] {
        assert_eq!(t.changes(&email, &ChangeId(invalid.to_owned())).await.len(), 1, "`{invalid}`");
    }
}

pub(super) async fn old_changes_are_trimmed(t: Fixture<'_>) {
    let email = user("a");
    let ids: Vec<String> = (0..MAX_CHANGES + 400).map(|number| format!("r-{number:04}")).collect();
    for batch in ids.chunks(200) {
        let requests: Vec<CrawlRequest> = batch.iter().map(|id| request(&email, id, 1)).collect();
        expect_ok(t.store.add(&requests).await, "adding");
    }
    let changes = t.changes(&email, &ChangeId::default()).await;
    assert!((MAX_CHANGES..MAX_CHANGES + 300).contains(&changes.len()), "{} are kept", changes.len());
    assert_eq!(changes.last().map(|change| &change.request), ids.last());
}

pub(super) async fn a_change_wakes_its_own_process(mut t: Fixture<'_>) {
    let woken = async |t: &Fixture<'_>, change: &str| {
        let woken = tokio::time::timeout(Duration::from_secs(10), t.store.changed().notified()).await;
        assert!(woken.is_ok(), "{change} does not wake it");
    };
    let requests = t.added(&user("a"), &["r-1", "r-2"]).await;
    woken(&t, "a new request").await;
    t.apply(&completed(&requests[0], "7")).await;
    woken(&t, "an answer").await;
    expect_ok(t.store.delete(&requests[0].key()).await, "deleting");
    woken(&t, "a deletion").await;
    t.pass_all_of(POLICY.timeout).await;
    t.expire().await;
    woken(&t, "a deadline").await;
}
