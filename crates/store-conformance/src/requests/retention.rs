//! Cases: deletion of ended requests at the end of their retention.

use super::fixture::*;

/// Retention of the cases.
const MIN_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Fixture<'_> {
    async fn purge(&self, max: usize) -> usize {
        expect_ok(self.store.purge(MIN_AGE, max).await, "purging")
    }

    async fn ids(&self, email: &str, status: Option<RequestStatus>) -> Vec<String> {
        let page = self.list(email, RequestQuery { status, limit: 10, ..RequestQuery::default() }).await;
        page.requests.into_iter().map(|request| request.id).collect()
    }
}

pub(super) async fn an_ended_request_is_purged_after_its_retention(mut t: Fixture<'_>) {
    let email = user("a");
    let requests = t.added(&email, &["r-1", "r-2", "r-3", "r-4"]).await;
    t.pass_all_of(POLICY.timeout).await;
    let unknown = request(&email, "r-5", 5);
    t.apply(&completed(&requests[0], "1")).await;
    t.apply(&failed(&requests[1], "404")).await;
    t.apply(&completed(&unknown, "5")).await;
    let slack = t.slack();
    t.pass(MIN_AGE - slack - Duration::from_secs(1)).await;
    t.apply(&completed(&requests[2], "3")).await;
    assert_eq!(t.purge(10).await, 0, "not yet");
    t.pass_all_of(slack + Duration::from_secs(1)).await;
    let before = t.changes(&email, &ChangeId::default()).await.pop().expect("a change").id;
    assert_eq!(t.purge(10).await, 3);
    assert_eq!(t.purge(10).await, 0, "once");
    for purged in [&requests[0], &requests[1], &unknown] {
        assert_eq!(t.find(purged).await, None, "{} is gone", purged.id);
    }
    assert_eq!(t.ids(&email, None).await, ["r-4", "r-3"], "the others stay");
    assert_eq!(t.ids(&email, Some(RequestStatus::Completed)).await, ["r-3"]);
    assert_eq!(t.ids(&email, Some(RequestStatus::Failed)).await, [""; 0]);
    let mut changes = t.changes(&email, &before).await;
    changes.sort_by(|one, other| one.request.cmp(&other.request));
    let changes: Vec<_> = changes.iter().map(|change| (&*change.request, change.status)).collect();
    assert_eq!(changes, [("r-1", None), ("r-2", None), ("r-5", None)], "the feed has the deletions");
    assert_eq!(t.apply(&completed(&requests[0], "1")).await, ApplyOutcome::Deleted, "a repeated answer");
    assert_eq!(t.find(&requests[0]).await, None, "it stays deleted");
}

pub(super) async fn a_request_that_failed_at_its_deadline_is_purged_too(mut t: Fixture<'_>) {
    let request = t.added(&user("a"), &["r-1"]).await.remove(0);
    t.pass_all_of(POLICY.timeout).await;
    assert_eq!(t.expire().await, 1);
    t.pass_all_of(MIN_AGE).await;
    assert_eq!((t.purge(10).await, t.find(&request).await), (1, None));
}

pub(super) async fn no_more_are_purged_than_asked(mut t: Fixture<'_>) {
    let email = user("a");
    for request in t.added(&email, &["r-1", "r-2", "r-3"]).await {
        t.apply(&completed(&request, "1")).await;
    }
    t.pass_all_of(MIN_AGE).await;
    assert_eq!((t.purge(2).await, t.purge(2).await, t.purge(2).await), (2, 1, 0));
    assert_eq!(t.ids(&email, None).await, [""; 0]);
}

pub(super) async fn an_id_that_is_added_again_has_a_retention_of_its_own(mut t: Fixture<'_>) {
    let email = user("a");
    let first = t.added(&email, &["r-1"]).await.remove(0);
    t.apply(&completed(&first, "1")).await;
    expect_ok(t.store.delete(&first.key()).await, "deleting");
    t.pass_all_of(MIN_AGE / 2).await;
    t.added(&email, &["r-1"]).await;
    t.apply(&completed(&first, "2")).await;
    t.pass_all_of(MIN_AGE / 2).await;
    assert_eq!(t.purge(10).await, 0, "the deleted one does not count");
    assert_eq!(end_of(&t.get(&first).await).1, "2");
}
