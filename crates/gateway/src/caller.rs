//! Client of a request: identity, role and trust.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use crawlway_store::{TokenRecord, TokenRole};
use http::request::Parts;
use std::sync::{Arc, OnceLock};

/// Token id of the admin token in logs.
const ADMIN_TOKEN: &str = "gateway.token";

/// Client of a request. Routes get it as an extractor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// E-mail of the user, as stored with the token; `None` for the token in `gateway.token` and without a token.
    pub email: Option<String>,
    /// Role, which decides about the routes.
    pub role: TokenRole,
    /// Id of the stored token, or `gateway.token`; `None` without a token.
    pub token_id: Option<String>,
    /// Whether the client may see internal errors: an admin with a token, or a local client of a gateway without one.
    pub trusted: bool,
}

impl Caller {
    /// Client with the token in `gateway.token`.
    pub(crate) fn admin() -> Self {
        let token_id = Some(ADMIN_TOKEN.to_owned());
        Self { email: None, role: TokenRole::Admin, token_id, trusted: true }
    }

    /// Client with a stored token.
    pub(crate) fn with_token(token: &TokenRecord) -> Self {
        Self {
            email: Some(token.email.clone()),
            role: token.role,
            token_id: Some(token.id.clone()),
            trusted: token.role == TokenRole::Admin,
        }
    }

    /// Client without a token, of a gateway that needs none.
    pub(crate) fn unauthenticated(is_local: bool) -> Self {
        Self { email: None, role: TokenRole::Admin, token_id: None, trusted: is_local }
    }

    /// Client without a valid token, on a public path.
    pub(crate) fn anonymous() -> Self {
        Self { email: None, role: TokenRole::User, token_id: None, trusted: false }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::internal("the request was not authenticated"))
    }
}

/// Request extension that carries the caller from the authentication to the audit log.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallerSlot(pub(crate) Arc<OnceLock<Caller>>);
