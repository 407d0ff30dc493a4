//! Cases: adding, finding and listing.

use super::fixture::*;

pub(super) async fn every_field_comes_back(t: Fixture<'_>) {
    let plain = token("plain");
    let full = TokenRecord {
        email: "Ann.O'Neil+tag@example.org".to_owned(),
        role: TokenRole::Admin,
        created_at: at(1),
        expires_at: Some(at(2)),
        revoked_at: Some(at(3)),
        ..token("full")
    };
    for token in [&plain, &full] {
        assert!(t.add(token).await, "a new token is added");
        assert_eq!(t.find(token).await.as_ref(), Some(token), "by its hash");
    }
    assert_eq!(t.list().await, [plain, full], "in the list");
}

pub(super) async fn an_unknown_hash_finds_nothing(t: Fixture<'_>) {
    assert_eq!(t.find(&token("none")).await, None, "in an empty store");
    assert_eq!(t.list().await, [], "the list is empty");
    let mut near = token("one");
    t.add(&near).await;
    near.hash.0[31] ^= 1;
    assert_eq!(t.find(&near).await, None, "one bit differs");
}

pub(super) async fn the_list_is_in_the_order_of_addition(t: Fixture<'_>) {
    let tokens = ["b", "a", "C", "_"].map(token);
    for token in &tokens {
        t.add(token).await;
    }
    assert_eq!(t.list().await, tokens, "neither by id nor by time");
}

pub(super) async fn a_user_may_have_several_tokens(t: Fixture<'_>) {
    let first = token("first");
    let second = TokenRecord { email: first.email.clone(), ..token("second") };
    assert!(t.add(&first).await && t.add(&second).await, "both are added");
    assert_eq!(t.find(&second).await, Some(second), "each by its own hash");
}

pub(super) async fn the_same_record_again_changes_nothing(t: Fixture<'_>) {
    let one = token("one");
    assert!(t.add(&one).await && t.add(&one).await, "a repeated call succeeds");
    assert_eq!(t.list().await, [one], "there is one");
}

pub(super) async fn a_taken_id_is_refused(t: Fixture<'_>) {
    let one = token("one");
    t.add(&one).await;
    let other = TokenRecord { hash: TokenHash::of("another"), role: TokenRole::Admin, ..token("one") };
    assert!(!t.add(&other).await, "the id is taken");
    assert_eq!((t.find(&other).await, t.list().await), (None, vec![one]), "nothing has changed");
}

pub(super) async fn a_taken_hash_is_refused(t: Fixture<'_>) {
    let one = token("one");
    t.add(&one).await;
    let other = TokenRecord { id: "other".to_owned(), role: TokenRole::Admin, ..one.clone() };
    assert!(!t.add(&other).await, "the hash is taken");
    assert_eq!((t.find(&other).await, t.list().await), (Some(one.clone()), vec![one]), "nothing has changed");
}
