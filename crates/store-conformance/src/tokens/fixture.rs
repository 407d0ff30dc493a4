//! Fixture of access tokens: adding, finding and revoking.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::tokens::*;

/// A token with this id, whose secret is derived from the id.
pub(super) fn token(id: &str) -> TokenRecord {
    TokenRecord {
        id: id.to_owned(),
        hash: TokenHash::of(&format!("secret of {id}")),
        email: format!("{id}@example.org"),
        role: TokenRole::User,
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    }
}

impl Fixture<'_> {
    pub(super) async fn add(&self, token: &TokenRecord) -> bool {
        expect_ok(self.store.add(token).await, "adding")
    }

    pub(super) async fn find(&self, token: &TokenRecord) -> Option<TokenRecord> {
        expect_ok(self.store.find(&token.hash).await, "finding")
    }

    pub(super) async fn list(&self) -> Vec<TokenRecord> {
        expect_ok(self.store.list().await, "listing")
    }

    pub(super) async fn revoke(&self, id: &str, second: u64) -> Option<TokenRecord> {
        expect_ok(self.store.revoke(id, at(second)).await, "revoking")
    }
}
