//! Cases: pauses and bindings.

use super::fixture::*;

pub(super) async fn pauses_last_until_resumed(mut t: Fixture<'_>) {
    let paused = async |t: &Fixture<'_>| expect_ok(t.store.paused().await, "asking for pauses");
    assert!(paused(&t).await.is_empty());
    for queue in ["b", "a", "b", "A", "日"] {
        expect_ok(t.store.pause(queue).await, "pausing");
    }
    expect_ok(t.store.resume("A").await, "resuming");
    expect_ok(t.store.resume("c").await, "resuming a queue that is not paused");
    assert_eq!(paused(&t).await, ["a", "b", "日"]);
    t = t.reopened().await;
    t.store = t.another_handle().await;
    expect_ok(t.store.resume("b").await, "resuming");
    assert_eq!(paused(&t).await, ["a", "日"]);
}

pub(super) async fn bindings_are_replaced_as_a_whole(mut t: Fixture<'_>) {
    let binding = |exchange: &str, pattern: &str| ExchangeBinding::new(exchange, pattern).expect("a binding");
    let bind = async |t: &Fixture<'_>, queue: &str, bindings: &[ExchangeBinding]| {
        expect_ok(t.store.bind(queue, bindings).await, "binding");
    };
    let of = async |t: &Fixture<'_>, exchange: &str| {
        let bindings = expect_ok(t.store.bindings(exchange).await, "asking for bindings");
        bindings.into_iter().map(|(queue, pattern)| format!("{queue} {pattern}")).collect::<Vec<_>>()
    };
    bind(&t, "b", &[binding("x", "jobs.*"), binding("x", "#"), binding("y", "a.b")]).await;
    bind(&t, "a", &[binding("x", "jobs.*"), binding("x", "jobs.*")]).await;
    bind(&t, "c", &[binding("x", "c")]).await;
    bind(&t, "c", &[]).await;
    t = t.reopened().await;
    assert_eq!(of(&t, "x").await, ["a jobs.*", "b #", "b jobs.*"]);
    assert_eq!((of(&t, "y").await, of(&t, "z").await), (vec!["b a.b".to_owned()], vec![]));
    t.store = t.another_handle().await;
    bind(&t, "b", &[binding("y", "new \u{6f22}")]).await;
    assert_eq!(of(&t, "x").await, ["a jobs.*"]);
    assert_eq!(of(&t, "y").await, ["b new \u{6f22}"]);
}
