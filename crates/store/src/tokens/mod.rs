//! Access tokens of the gateway: who may use it, and in which role. Only hashes of tokens are stored.

mod email;

pub use email::normalise_email;

use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::{self, Debug};

/// Access tokens. A revoked token keeps its record, so that its holder can be told.
#[async_trait::async_trait]
pub trait Tokens: Debug + Send + Sync {
    /// Adds a token. False if another one has its id or its hash; true for the same record again. It is durable when this
    /// returns.
    async fn add(&self, token: &TokenRecord) -> Result<bool, StoreError>;

    /// All tokens, in the order they were added.
    async fn list(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Token with this hash, also if it is revoked or expired.
    async fn find(&self, hash: &TokenHash) -> Result<Option<TokenRecord>, StoreError>;

    /// Revokes the token with this id and returns its record; `None` if there is none. The first revocation keeps its time.
    async fn revoke(&self, id: &str, at: Timestamp) -> Result<Option<TokenRecord>, StoreError>;
}

/// Stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Public id, for lists, logs and revocation.
    pub id: String,
    /// Hash of the token.
    pub hash: TokenHash,
    /// E-mail of the user, in the form of [`normalise_email`].
    pub email: String,
    /// Role of the user.
    pub role: TokenRole,
    /// When the token was made.
    pub created_at: Timestamp,
    /// When the token expires; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// When the token was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// SHA-256 of a token. A token has 256 random bits, so that its hash needs neither salt nor stretching.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Hash of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenRole {
    /// Own requests, and the routes that flows open to users.
    User,
    /// All routes.
    Admin,
}

impl TokenRole {
    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Admin => "admin",
        }
    }

    /// Parses a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::User, Self::Admin].into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for TokenRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
