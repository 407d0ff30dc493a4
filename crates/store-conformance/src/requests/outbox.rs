//! Cases: adding, and publishing again after a crash.

use super::fixture::*;

pub(super) async fn an_added_request_is_pending(t: Fixture<'_>) {
    let email = user("a");
    let new = request(&email, "r-1", 1);
    assert_eq!(t.find(&new).await, None, "nothing is there");
    assert_eq!(t.add(&new).await, AddOutcome::Added);
    assert_eq!(t.get(&new).await.to_json(), new.to_json(), "as it was added");
    assert_eq!(end_of(&t.get(&new).await), (RequestStatus::Pending, "null".to_owned()));
}

pub(super) async fn an_added_request_is_published_again_until_it_is_confirmed(mut t: Fixture<'_>) {
    let email = user("a");
    let (one, two) = (request(&email, "r-1", 1), request(&email, "r-2", 1));
    t.add(&one).await;
    t.add(&two).await;
    assert_eq!(t.unpublished(&email).await, [""; 0], "its gateway may be publishing it");
    expect_ok(t.store.published(from_ref(&one)).await, "a confirm");
    for _ in 0..3 {
        t.pass_all_of(POLICY.publish_timeout).await;
        assert_eq!(t.unpublished(&email).await, ["r-2"], "without a confirm");
        assert_eq!(t.unpublished(&email).await, [""; 0], "another process may be publishing it");
    }
    expect_ok(t.store.published(from_ref(&two)).await, "a confirm");
    expect_ok(t.store.published(from_ref(&two)).await, "the same again");
    t.pass_all_of(POLICY.publish_timeout).await;
    assert_eq!(t.unpublished(&email).await, [""; 0], "confirmed");
}

pub(super) async fn a_request_that_has_ended_is_not_published_again(mut t: Fixture<'_>) {
    let email = user("a");
    let (answered, deleted) = (request(&email, "r-1", 1), request(&email, "r-2", 1));
    t.add(&answered).await;
    t.add(&deleted).await;
    t.apply(&completed(&answered, "1")).await;
    expect_ok(t.store.delete(&deleted.key()).await, "deleting");
    t.pass_all_of(POLICY.publish_timeout).await;
    assert_eq!(t.unpublished(&email).await, [""; 0]);
    assert_eq!(t.find(&deleted).await, None, "it stays deleted");
}

pub(super) async fn an_id_is_added_once(mut t: Fixture<'_>) {
    let email = user("a");
    let first = t.added(&email, &["r-1"]).await.remove(0);
    let again = CrawlRequest { url: "https://b.example/".to_owned(), ..request(&email, "r-1", 9) };
    let both = [again, request(&email, "r-2", 9)];
    let outcomes = expect_ok(t.store.add(&both).await, "adding");
    assert_eq!(outcomes, [AddOutcome::Exists(first.clone()), AddOutcome::Added], "in order");
    t.apply(&completed(&first, "7")).await;
    let AddOutcome::Exists(current) = t.add(&both[0]).await else { panic!("it exists") };
    assert_eq!((end_of(&current).1, current.url), ("7".to_owned(), first.url), "as it is now");
    t.pass_all_of(POLICY.publish_timeout).await;
    assert_eq!(t.unpublished(&email).await, ["r-2"], "the one that exists is not published again");
}

pub(super) async fn racing_gateways_publish_again_once(mut t: Fixture<'_>) {
    let email = user("a");
    let ids: Vec<String> = (0..40).map(|number| format!("r-{number:02}")).collect();
    let requests: Vec<CrawlRequest> = ids.iter().map(|id| request(&email, id, 1)).collect();
    expect_ok(t.store.add(&requests).await, "adding");
    t.pass_all_of(POLICY.publish_timeout).await;
    let of_user = email.clone();
    let taken = t.race(8, move |_, store| {
        let email = of_user.clone();
        async move {
            let taken = expect_ok(store.take_unpublished(1000).await, "taking");
            taken
                .into_iter()
                .filter(|request| request.email == email)
                .map(|request| request.id)
                .collect::<Vec<_>>()
        }
    });
    let mut taken: Vec<String> = taken.await.into_iter().flatten().collect();
    taken.sort();
    assert_eq!(taken, ids, "each by one process");
}

pub(super) async fn requests_survive_a_reopening(t: Fixture<'_>) {
    let email = user("a");
    let request = t.added(&email, &["r-1"]).await.remove(0);
    t.apply(&completed(&request, r#"{"a":1}"#)).await;
    let t = t.reopened().await;
    assert_eq!(end_of(&t.get(&request).await), (RequestStatus::Completed, r#"{"a":1}"#.to_owned()));
    assert_eq!(t.changes(&email, &ChangeId::default()).await.len(), 2, "with its changes");
}
