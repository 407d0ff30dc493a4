//! Cases: records come back unchanged, or are refused.

use super::fixture::*;

fn details(value: Value) -> FetchedContent {
    FetchedContent { additional_details: object(json!({ "it": value })), ..FetchedContent::default() }
}

pub(super) async fn odd_texts_come_back(t: Fixture<'_>) {
    for (second, text) in (1..).zip(odd_texts()) {
        let fetched = FetchedContent {
            headers: Some(object(json!({ "x": text, "y": [text, text] }))),
            cookies: Some(object(json!({ "c": { "value": text } }))),
            page_source: Some(text.clone()),
            additional_details: object(json!({ "it": [text] })),
        };
        let record = t.completed(&message(&format!("m-{second}"), second), &fetched, second).await;
        has(&record, &fetched, "an odd text");
        let error: String = text.chars().take(1000).collect();
        let attempt = t.attempt(&message(&format!("m-{second}-b"), second), second).await;
        t.fail(&attempt, &error, second).await;
        assert_eq!(t.record().await.processing.error_message, Some(error), "an error");
    }
}

pub(super) async fn odd_names_come_back(t: Fixture<'_>) {
    let odd =
        ["", ".", "a.b", ".a", "a.", "$", "$set", "$ref", "$id", "$db", "_id", "a$b", "0", "constructor"];
    let names = odd.into_iter().map(str::to_owned).chain(odd_texts().into_iter().take(6)).chain(odd_urls());
    let mut names: Map<String, Value> = names.zip((0..).map(Value::from)).collect();
    // What a value is called where JSON is to carry types, alone in an object and with values of all kinds.
    let typed =
        ["$oid", "$date", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$binary", "$uuid"];
    let typed = typed.into_iter().chain([
        "$regularExpression",
        "$timestamp",
        "$code",
        "$scope",
        "$symbol",
        "$minKey",
    ]);
    for name in
        typed.chain(["$maxKey", "$undefined", "$dbPointer", "$numberDecimalBytes", "$literal", "$__proto"])
    {
        names.insert(
            name.to_owned(),
            json!([{ name: "x" }, { name: 1 }, { name: { name: null } }, { name: [] }]),
        );
    }
    let fetched = FetchedContent {
        headers: Some(names.clone()),
        cookies: Some(object(json!({ "c": names.clone() }))),
        page_source: None,
        additional_details: names,
    };
    t.completed(&message("m-1", 0), &fetched, 1).await;
    // Kept through what happens to the record later, too.
    let attempt = t.attempt(&message("m-2", 2), 3).await;
    t.fail(&attempt, "timed out", 4).await;
    has(&t.record().await, &fetched, "odd names");
}

pub(super) async fn numbers_and_nesting_come_back(t: Fixture<'_>) {
    let deep = (4..MAX_NESTING).fold(json!(["deep"]), |value, level| {
        if level % 2 == 0 { json!([value]) } else { json!({ "in": value }) }
    });
    let value = json!([
        0,
        1,
        -1,
        i32::MAX,
        i64::from(i32::MAX) + 1,
        i64::MAX,
        i64::MIN,
        9_007_199_254_740_993_i64,
        0.5,
        -1.0e300,
        1.0,
        true,
        false,
        null,
        [],
        {},
        [[], [{}]],
        deep,
    ]);
    let fetched = details(value);
    let record = t.completed(&message("m-1", 0), &fetched, 1).await;
    has(&record, &fetched, "every value as it was");
}

pub(super) async fn a_nul_becomes_a_replacement_character(t: Fixture<'_>) {
    let shown = WITH_NUL.replace('\0', "\u{fffd}");
    let made = |text: &str| FetchedContent {
        headers: Some(object(json!({ "x": text, text: [text] }))),
        cookies: Some(object(json!({ text: { "value": text } }))),
        page_source: Some(format!("{text}{text}")),
        additional_details: object(json!({ text: [{ text: text }] })),
    };
    let record = t.completed(&message(WITH_NUL, 0), &made(WITH_NUL), 1).await;
    has(&record, &made(&shown), "with replacement characters");
    let again = t.begin(&message(WITH_NUL, 0), 2).await;
    assert!(matches!(again, BeginOutcome::AlreadyFinished { .. }), "it is known again: {again:?}");
    let attempt = t.attempt(&message("m-2", 3), 3).await;
    t.fail(&attempt, WITH_NUL, 4).await;
    assert_eq!(t.record().await.processing.error_message, Some(shown), "an error");
}

pub(super) async fn a_number_too_large_becomes_floating(t: Fixture<'_>) {
    let record = t.completed(&message("m-1", 0), &details(json!([u64::MAX])), 1).await;
    let kept = record.additional_details.unwrap_or_default();
    let number = &kept["it"][0];
    assert!(!number.is_u64() && number.as_f64() == Some(18_446_744_073_709_551_615.0), "kept as {number}");
}

pub(super) async fn a_long_error_is_cut(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    t.fail(&attempt, &format!("x{}", "\u{e9}".repeat(MAX_ERROR_BYTES)), 2).await;
    let error = t.record().await.processing.error_message.unwrap_or_default();
    assert_eq!(error.len(), MAX_ERROR_BYTES - 1, "as much as fits, in whole characters");
    assert!(error.starts_with("x\u{e9}"), "from its beginning");
}

pub(super) async fn details_cannot_change_our_notes(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    let before = t.record().await.latest_attempt;
    let mut fetched = page("hello");
    let expected = fetched.additional_details.clone();
    fetched
        .additional_details
        .insert(CRAWLWAY_FIELD.to_owned(), json!({ "message_id": "m-9", "attempt": 99 }));
    t.complete(&attempt, &fetched, 2).await;
    let record = t.record().await;
    assert_eq!(record.latest_attempt, before, "whose attempt it was");
    assert_eq!(record.additional_details, Some(expected), "the rest of the details");
}

pub(super) async fn the_largest_record_is_kept(t: Fixture<'_>) {
    // Many values, whose names and lengths a store has to keep as well, beside one that is long.
    let mut fetched = FetchedContent {
        headers: Some((0..50_000).map(|number| (format!("h{number}"), json!(["", number]))).collect()),
        page_source: Some(String::new()),
        ..FetchedContent::default()
    };
    fetched.page_source = Some("\u{e9}".repeat((MAX_RECORD_BYTES - fetched.size_bytes()) / 2));
    let record = t.completed(&message("m-1", 0), &fetched, 1).await;
    assert!(record.metadata.page_source == fetched.page_source.into(), "the source comes back as it was");
    assert!(record.metadata.headers == fetched.headers, "the headers come back as they were");
    let error = "x".repeat(MAX_ERROR_BYTES);
    let attempt = t.attempt(&message("m-2", 2), 3).await;
    assert_eq!(
        t.fail(&attempt, &error, 4).await,
        ended(RecordStatus::FailedRetryable, 1),
        "there is room for it"
    );
}

pub(super) async fn a_record_too_large_is_refused_and_can_fail(t: Fixture<'_>) {
    for (second, size) in [(1, MAX_RECORD_BYTES + 1), (2, 40 << 20)] {
        let before = t.completed(&message(&format!("m-{second}-a"), second), &page("small"), second).await;
        let attempt = t.attempt(&message(&format!("m-{second}-b"), second), second).await;
        let huge = FetchedContent { page_source: Some("x".repeat(size)), ..page("huge") };
        let problem = refused(t.store.complete(&attempt, &huge, at(3)).await, "a record too large");
        assert!(problem.contains(&MAX_RECORD_BYTES.to_string()), "it says how large one may be: {problem}");
        let record = t.record().await;
        assert_eq!(record.status, RecordStatus::InProgress, "the attempt has not ended");
        assert_eq!(record.metadata, before.metadata, "nothing was replaced");
        let failed = t.store.fail(&attempt, &problem, MAX_ATTEMPTS, at(4)).await;
        assert_eq!(
            expect_ok(failed, "failing"),
            ended(RecordStatus::FailedRetryable, 1),
            "it fails for that reason"
        );
    }
}

pub(super) async fn a_record_too_deep_is_refused(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    for levels in [MAX_NESTING, 120] {
        let deep = (1..levels).fold(json!(1), |value, _| json!([value]));
        refused(t.store.complete(&attempt, &details(deep), at(2)).await, "a record too deep");
    }
    assert_eq!(
        t.complete(&attempt, &page("flat"), 3).await,
        ended(RecordStatus::Completed, 0),
        "it was still open"
    );
}
