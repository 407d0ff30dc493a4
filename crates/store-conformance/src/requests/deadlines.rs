//! Cases: deadlines of requests without an answer.

use super::fixture::*;

pub(super) async fn a_request_without_an_answer_fails_at_its_deadline(mut t: Fixture<'_>) {
    let request = t.added(&user("a"), &["r-1"]).await.remove(0);
    let slack = t.slack();
    t.pass(POLICY.timeout - slack - Duration::from_secs(1)).await;
    t.expire().await;
    assert_eq!(end_of(&t.get(&request).await).0, RequestStatus::Pending, "not yet");
    t.pass_all_of(slack + Duration::from_secs(1)).await;
    assert_eq!(t.expire().await, 1);
    let expected = (RequestStatus::Failed, r#"{"errorMessage":"no answer in time"}"#.to_owned());
    assert_eq!(end_of(&t.get(&request).await), expected);
    t.pass_all_of(POLICY.timeout).await;
    assert_eq!(t.expire().await, 0, "once");
    let late = t.apply(&completed(&request, "7")).await;
    assert_eq!(late, ApplyOutcome::AlreadyEnded(RequestStatus::Failed), "a late answer");
    assert_eq!(end_of(&t.get(&request).await), expected);
}

pub(super) async fn an_answered_request_has_no_deadline(mut t: Fixture<'_>) {
    let email = user("a");
    let request = t.added(&email, &["r-1"]).await.remove(0);
    t.apply(&completed(&request, "7")).await;
    let changes = t.changes(&email, &ChangeId::default()).await;
    t.pass_all_of(POLICY.timeout).await;
    assert_eq!(t.expire().await, 0);
    assert_eq!(end_of(&t.get(&request).await).1, "7");
    assert_eq!(t.changes(&email, &ChangeId::default()).await, changes, "nothing has changed");
}

pub(super) async fn no_more_are_failed_than_asked(mut t: Fixture<'_>) {
    let email = user("a");
    t.added(&email, &["r-1", "r-2", "r-3"]).await;
    t.pass_all_of(POLICY.timeout).await;
    let expire = async || expect_ok(t.store.expire("late", 2).await, "expiring");
    assert_eq!((expire().await, expire().await, expire().await), (2, 1, 0));
    let query = RequestQuery { status: Some(RequestStatus::Failed), limit: 10, ..RequestQuery::default() };
    assert_eq!(t.list(&email, query).await.requests.len(), 3);
}
