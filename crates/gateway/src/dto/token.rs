//! JSON of access tokens.

use crawlway_store::{TokenRecord, TokenRole};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// E-mail of the user.
    #[schema(example = "ann@example.org")]
    pub email: String,
    /// Role; `user` by default.
    #[serde(default)]
    pub role: TokenRoleView,
    /// Lifetime as a duration such as `30d`; without it the token does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "30d")]
    pub expires: Option<String>,
}

/// Role of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TokenRole)]
pub enum TokenRoleView {
    /// Own requests, and search.
    #[default]
    User,
    /// All routes.
    Admin,
}

/// Token that was made. The only time that its secret is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// Secret to be sent as `Authorization: Bearer TOKEN`. It is not stored.
    pub token: String,
    /// Record of the token.
    #[serde(flatten)]
    pub record: TokenView,
}

/// Record of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Public id.
    pub id: String,
    /// E-mail of the user.
    pub email: String,
    /// Role.
    pub role: TokenRoleView,
    /// When the token was made.
    pub created_at: String,
    /// When the token expires; null for never.
    pub expires_at: Option<String>,
    /// When the token was revoked; null if it was not.
    pub revoked_at: Option<String>,
}

/// List of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// Tokens, oldest first.
    pub tokens: Vec<TokenView>,
}

impl From<TokenRecord> for TokenView {
    fn from(token: TokenRecord) -> Self {
        Self {
            id: token.id,
            email: token.email,
            role: token.role.into(),
            created_at: token.created_at.to_iso(),
            expires_at: token.expires_at.map(|at| at.to_iso()),
            revoked_at: token.revoked_at.map(|at| at.to_iso()),
        }
    }
}

impl From<TokenRole> for TokenRoleView {
    fn from(role: TokenRole) -> Self {
        match role {
            TokenRole::User => Self::User,
            TokenRole::Admin => Self::Admin,
        }
    }
}

impl From<TokenRoleView> for TokenRole {
    fn from(role: TokenRoleView) -> Self {
        match role {
            TokenRoleView::User => Self::User,
            TokenRoleView::Admin => Self::Admin,
        }
    }
}
