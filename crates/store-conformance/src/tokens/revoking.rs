//! Cases: revocation of tokens, once and again.

use super::fixture::*;

pub(super) async fn a_revoked_token_keeps_its_record(t: Fixture<'_>) {
    let one = token("one");
    t.add(&one).await;
    let revoked = Some(TokenRecord { revoked_at: Some(at(5)), ..one.clone() });
    assert_eq!(t.revoke("one", 5).await, revoked, "the answer has the record");
    assert_eq!(t.find(&one).await, revoked, "it is found");
    assert_eq!(t.list().await, Vec::from_iter(revoked), "and listed");
}

pub(super) async fn the_first_revocation_keeps_its_time(t: Fixture<'_>) {
    t.add(&token("one")).await;
    for second in [5, 9, 1] {
        let revoked = t.revoke("one", second).await.expect("the token");
        assert_eq!(revoked.revoked_at, Some(at(5)), "the time of the first");
    }
}

pub(super) async fn an_unknown_id_revokes_nothing(t: Fixture<'_>) {
    let one = token("one");
    t.add(&one).await;
    for id in ["", "ONE", "on", "one ", "%", "two"] {
        assert_eq!(t.revoke(id, 5).await, None, "`{id}` is none");
    }
    assert_eq!(t.list().await, [one], "nothing has changed");
}

pub(super) async fn other_tokens_stay_valid(t: Fixture<'_>) {
    let (one, other) = (token("one"), TokenRecord { email: token("one").email, ..token("other") });
    t.add(&one).await;
    t.add(&other).await;
    t.revoke("one", 5).await;
    assert_eq!(t.find(&other).await, Some(other), "also that of the same user");
}

pub(super) async fn adding_again_does_not_undo_a_revocation(t: Fixture<'_>) {
    let one = token("one");
    t.add(&one).await;
    t.revoke("one", 5).await;
    t.add(&one).await;
    assert_eq!(t.find(&one).await.and_then(|token| token.revoked_at), Some(at(5)), "it stays revoked");
}
