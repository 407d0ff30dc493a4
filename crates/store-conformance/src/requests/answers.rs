//! Cases: answers, each applied once.

use super::fixture::*;

pub(super) async fn a_result_is_kept_as_it_was_sent(t: Fixture<'_>) {
    let email = user("a");
    let results =
        [r#""text""#, "null", "1e400", r#"{"z":1,"a":[12345678901234567890.10,"\u0000"]}"#, "[]", "false"];
    for (number, result) in results.into_iter().enumerate() {
        let request = request(&email, &format!("r-{number}"), 1);
        t.add(&request).await;
        assert_eq!(t.apply(&completed(&request, result)).await, ApplyOutcome::Applied, "{result}");
        let stored = t.get(&request).await;
        assert_eq!(end_of(&stored), (RequestStatus::Completed, result.to_owned()));
        let same = (stored.url, stored.created_at, stored.email);
        assert_eq!(same, (request.url, request.created_at, request.email), "the rest is unchanged");
    }
}

pub(super) async fn an_error_message_fails_a_request(t: Fixture<'_>) {
    let request = t.added(&user("a"), &["r-1"]).await.remove(0);
    assert_eq!(t.apply(&failed(&request, "Request timed out")).await, ApplyOutcome::Applied);
    let expected = r#"{"errorMessage":"Request timed out"}"#.to_owned();
    assert_eq!(end_of(&t.get(&request).await), (RequestStatus::Failed, expected));
}

pub(super) async fn the_first_answer_counts(t: Fixture<'_>) {
    let requests = t.added(&user("a"), &["r-1", "r-2"]).await;
    let first = [completed(&requests[0], "1"), failed(&requests[1], "first")];
    for answer in &first {
        assert_eq!(t.apply(answer).await, ApplyOutcome::Applied);
    }
    for later in [completed(&requests[0], "2"), failed(&requests[0], "later"), first[0].clone()] {
        assert_eq!(t.apply(&later).await, ApplyOutcome::AlreadyEnded(RequestStatus::Completed));
    }
    assert_eq!(
        t.apply(&completed(&requests[1], "2")).await,
        ApplyOutcome::AlreadyEnded(RequestStatus::Failed)
    );
    assert_eq!(end_of(&t.get(&requests[0]).await).1, "1");
    assert_eq!(end_of(&t.get(&requests[1]).await).1, r#"{"errorMessage":"first"}"#);
}

pub(super) async fn late_answers_are_kept_if_configured(
    harness: crate::fixture::Fresh<'_, dyn crawlway_store::RequestStore>,
) {
    let t = Fixture::with(harness, RequestPolicy { keep_late_answers: true, ..POLICY }).await;
    let request = t.added(&user("a"), &["r-1"]).await.remove(0);
    t.apply(&failed(&request, "no answer in time")).await;
    let again = t.apply(&failed(&request, "another error")).await;
    assert_eq!(again, ApplyOutcome::AlreadyEnded(RequestStatus::Failed), "no result");
    assert_eq!(t.apply(&completed(&request, "7")).await, ApplyOutcome::Applied);
    assert_eq!(end_of(&t.get(&request).await), (RequestStatus::Completed, "7".to_owned()));
    let again = t.apply(&completed(&request, "8")).await;
    assert_eq!(again, ApplyOutcome::AlreadyEnded(RequestStatus::Completed), "once");
}

pub(super) async fn an_answer_to_an_unknown_request_is_stored(t: Fixture<'_>) {
    let email = user("a");
    let unknown = request(&email, "r-1", 5);
    let data = r#"{"url":"https://c.example/","text":"hello"}"#;
    assert_eq!(t.apply(&completed(&unknown, data)).await, ApplyOutcome::Created);
    let stored = t.get(&unknown).await;
    assert_eq!(end_of(&stored), (RequestStatus::Completed, data.to_owned()));
    assert_eq!(
        (&*stored.url, &stored.created_at),
        ("https://c.example/", &unknown.created_at),
        "as far as known"
    );
    assert_eq!(
        t.apply(&completed(&unknown, data)).await,
        ApplyOutcome::AlreadyEnded(RequestStatus::Completed)
    );
    assert_eq!(t.apply(&failed(&request(&email, "r-2", 6), "gone")).await, ApplyOutcome::Created);
    let listed = t.list(&email, RequestQuery { limit: 10, ..RequestQuery::default() }).await.requests;
    assert_eq!(
        listed.iter().map(|request| (&*request.id, &*request.url)).collect::<Vec<_>>(),
        [("r-2", ""), ("r-1", "https://c.example/")]
    );
}

pub(super) async fn users_are_apart(t: Fixture<'_>) {
    let (one, other) = (user("a"), user("A"));
    let (mine, theirs) = (t.added(&one, &["r-1"]).await.remove(0), t.added(&other, &["r-1"]).await.remove(0));
    t.apply(&completed(&mine, "1")).await;
    assert_eq!(end_of(&t.get(&theirs).await).0, RequestStatus::Pending, "the same id of another user");
    let stranger = RequestKey::new(user("b"), "r-1");
    assert_eq!(expect_ok(t.store.get(&stranger).await, "reading"), None);
    assert!(!expect_ok(t.store.delete(&stranger).await, "deleting"));
    assert_eq!(expect_ok(t.store.delete_all(&stranger.email).await, "deleting"), 0);
    assert!(t.find(&mine).await.is_some() && t.find(&theirs).await.is_some(), "both are there");
}

pub(super) async fn racing_answers_apply_once(mut t: Fixture<'_>) {
    let email = user("a");
    let known = t.added(&email, &["r-1"]).await.remove(0);
    for (request, expected) in
        [(known, ApplyOutcome::Applied), (request(&email, "r-2", 2), ApplyOutcome::Created)]
    {
        let of_race = request.clone();
        let outcomes = t.race(8, move |number, store| {
            let answer = completed(&of_race, &number.to_string());
            async move { expect_ok(store.apply(&[answer]).await, "applying")[0] }
        });
        let outcomes = outcomes.await;
        let winners: Vec<usize> = (0..8).filter(|number| outcomes[*number] == expected).collect();
        assert_eq!(winners.len(), 1, "one wins: {outcomes:?}");
        assert_eq!(end_of(&t.get(&request).await).1, winners[0].to_string(), "its answer is the result");
    }
}

pub(super) async fn odd_texts_come_back(t: Fixture<'_>) {
    for (number, odd) in ["é{b}@c.example", "a'b\"c\\@d.example", "%00@d.example"].into_iter().enumerate() {
        let email = format!("{odd}.{}", user("x").replace('@', "."));
        let id = format!("r'\"{{}}\\ é-{number}");
        let request =
            CrawlRequest { url: "https://a.example/?q='\"\\é".to_owned(), ..request(&email, &id, 1) };
        assert_eq!(t.add(&request).await, AddOutcome::Added);
        assert_eq!(t.get(&request).await, request);
        t.apply(&failed(&request, "'\"\\é\n\u{1}")).await;
        assert_eq!(end_of(&t.get(&request).await).1, "{\"errorMessage\":\"'\\\"\\\\é\\n\\u0001\"}");
        let listed = t.list(&email, RequestQuery { limit: 10, ..RequestQuery::default() }).await.requests;
        assert_eq!(listed.len(), 1, "{email}");
    }
}
