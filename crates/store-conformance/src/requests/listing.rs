//! Cases: lists by creation time with pagination, and deletion.

use super::fixture::*;

fn all() -> RequestQuery {
    RequestQuery { limit: MAX_PAGE_SIZE, ..RequestQuery::default() }
}

fn ids(page: &RequestPage) -> Vec<&str> {
    page.requests.iter().map(|request| &*request.id).collect()
}

pub(super) async fn the_newest_comes_first(t: Fixture<'_>) {
    let email = user("a");
    assert_eq!(t.list(&email, all()).await, RequestPage { requests: vec![], next: None }, "nothing is there");
    for second in [3, 1, 4, 2] {
        t.add(&request(&email, &format!("r-{second}"), second)).await;
    }
    t.apply(&completed(&request(&email, "r-1", 1), "7")).await;
    let listed = t.list(&email, all()).await;
    assert_eq!((ids(&listed), listed.next.clone()), (vec!["r-4", "r-3", "r-2", "r-1"], None));
    assert_eq!(end_of(&listed.requests[3]).1, "7", "with its result");
    assert_eq!(t.list(&email, RequestQuery::default()).await.requests, [], "nothing was asked for");
}

pub(super) async fn a_status_is_picked(t: Fixture<'_>) {
    let email = user("a");
    let requests = t.added(&email, &["r-1", "r-2", "r-3", "r-4", "r-5", "r-6"]).await;
    for place in [0, 3] {
        t.apply(&completed(&requests[place], "7")).await;
    }
    t.apply(&failed(&requests[1], "late")).await;
    for (status, expected) in [
        (RequestStatus::Completed, vec!["r-4", "r-1"]),
        (RequestStatus::Failed, vec!["r-2"]),
        (RequestStatus::Pending, vec!["r-6", "r-5", "r-3"]),
    ] {
        let listed = t.list(&email, RequestQuery { status: Some(status), ..all() }).await;
        assert_eq!((ids(&listed), listed.next.clone()), (expected, None), "{status}");
    }
}

pub(super) async fn pages_have_every_request_once(t: Fixture<'_>) {
    let email = user("a");
    // Several of one time, so that pages end among them.
    let requests: Vec<CrawlRequest> =
        (0..23).map(|number| request(&email, &format!("r-{number:02}"), 10 + number / 5)).collect();
    expect_ok(t.store.add(&requests).await, "adding");
    let mut expected: Vec<String> = requests.iter().map(|request| request.id.clone()).collect();
    expected.reverse();
    for limit in [1, 3, 22, 23, 24] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = t.list(&email, RequestQuery { after, limit, ..all() }).await;
            assert!(page.requests.len() <= limit, "no more than {limit}");
            found.extend(page.requests.iter().map(|request| request.id.clone()));
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse::<RequestCursor>().unwrap_or_else(|error| panic!("{error}")));
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
    // A page goes on after a request that is gone.
    let page = t.list(&email, RequestQuery { limit: 7, ..all() }).await;
    expect_ok(t.store.delete(&page.requests[6].key()).await, "deleting");
    let rest = t.list(&email, RequestQuery { after: page.next, ..all() }).await;
    assert_eq!(ids(&rest), &expected[7..]);
}

pub(super) async fn a_deleted_request_is_gone_and_its_answer_ignored(t: Fixture<'_>) {
    let email = user("a");
    let requests = t.added(&email, &["r-1", "r-2"]).await;
    assert!(expect_ok(t.store.delete(&requests[0].key()).await, "deleting"));
    assert!(!expect_ok(t.store.delete(&requests[0].key()).await, "deleting"), "once");
    assert_eq!(t.find(&requests[0]).await, None);
    assert_eq!(t.apply(&completed(&requests[0], "7")).await, ApplyOutcome::Deleted);
    assert_eq!(t.find(&requests[0]).await, None, "it stays deleted");
    assert_eq!(ids(&t.list(&email, all()).await), ["r-2"]);
}

pub(super) async fn all_requests_of_one_user_are_deleted(mut t: Fixture<'_>) {
    let (email, other) = (user("a"), user("b"));
    let requests = t.added(&email, &["r-1", "r-2", "r-3"]).await;
    t.apply(&completed(&requests[0], "7")).await;
    t.added(&other, &["r-1"]).await;
    assert_eq!(expect_ok(t.store.delete_all(&email).await, "deleting"), 3);
    assert_eq!(expect_ok(t.store.delete_all(&email).await, "deleting"), 0, "once");
    assert_eq!((ids(&t.list(&email, all()).await).len(), ids(&t.list(&other, all()).await).len()), (0, 1));
    t.pass_all_of(POLICY.timeout).await;
    assert_eq!(t.expire().await, 1, "only that of the other has a deadline");
}

pub(super) async fn a_deleted_id_can_be_added_again(t: Fixture<'_>) {
    let email = user("a");
    let request = t.added(&email, &["r-1"]).await.remove(0);
    expect_ok(t.store.delete(&request.key()).await, "deleting");
    assert_eq!(t.add(&request).await, AddOutcome::Added);
    assert_eq!(t.apply(&completed(&request, "7")).await, ApplyOutcome::Applied);
    assert_eq!(end_of(&t.get(&request).await).1, "7");
}
