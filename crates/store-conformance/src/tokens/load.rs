//! Cases: handles share their state, it survives a reopening, and concurrent writers lose nothing.

use super::fixture::*;

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let second = t.another_handle().await;
    let one = token("one");
    t.add(&one).await;
    assert_eq!(expect_ok(second.find(&one.hash).await, "finding elsewhere"), Some(one.clone()), "there");
    expect_ok(second.revoke("one", at(5)).await, "revoking elsewhere");
    assert_eq!(t.find(&one).await.and_then(|token| token.revoked_at), Some(at(5)), "here, at once");
}

pub(super) async fn tokens_survive_a_reopening(mut t: Fixture<'_>) {
    let (one, two) = (token("one"), token("two"));
    t.add(&one).await;
    t.add(&two).await;
    t.revoke("one", 5).await;
    t = t.reopened().await;
    assert_eq!(t.list().await, [TokenRecord { revoked_at: Some(at(5)), ..one }, two], "with the revocation");
}

pub(super) async fn racing_writers_lose_nothing(mut t: Fixture<'_>) {
    const WRITERS: usize = 8;
    let added = t
        .race(WRITERS, |writer, tokens| async move {
            let own = token(&format!("own-{writer}"));
            expect_ok(tokens.add(&own).await, "adding");
            let shared = TokenRecord { hash: TokenHash::of(&format!("{writer}")), ..token("shared") };
            expect_ok(tokens.add(&shared).await, "adding with a shared id")
        })
        .await;
    assert_eq!(added.iter().filter(|added| **added).count(), 1, "one has got the shared id");
    assert_eq!(t.list().await.len(), WRITERS + 1, "all the others are there");
}
