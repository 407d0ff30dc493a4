//! Client of a request: identity, role and trust.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use crawlway_store::{
    TokenRecord, TokenRole,
    requests::{Email, InvalidEmail},
};
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

impl Caller {
    /// E-mail address of the user whose requests are meant: the caller's own, the one that an admin names, or the default. `parse`
    /// reads the named one.
    pub(crate) fn user(
        &self,
        named: Option<&str>,
        default: Option<&Email>,
        parse: fn(&str) -> Result<Email, InvalidEmail>,
    ) -> Result<Email, Problem> {
        let parsed =
            |text: &str| parse(text).map_err(|error| Problem::invalid(error.to_string()).field("email"));
        let own = self.email.as_deref().map(parsed).transpose()?;
        match (self.role, own, named.map(parsed).transpose()?) {
            (_, Some(own), None) => Ok(own),
            (TokenRole::User, Some(own), Some(named)) => {
                // Users need not know how their own address is written.
                if named == own || Email::normalised(named.as_str()).is_ok_and(|named| named == own) {
                    return Ok(own);
                }
                Err(Problem::forbidden("`email` names another user").field("email"))
            }
            (TokenRole::User, None, _) => Err(Problem::forbidden("the token belongs to no user")),
            (_, _, Some(named)) => Ok(named),
            (TokenRole::Admin, None, None) => {
                default.cloned().ok_or_else(|| Problem::invalid("name the user with `email`").field("email"))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_their_own_requests_and_an_admin_names_the_user() {
        let email = Email::normalised("a@example.com").unwrap();
        let user = Caller { email: Some("a@example.com".to_owned()), ..Caller::anonymous() };
        assert_eq!(user.user(None, None, Email::normalised).unwrap(), email);
        assert_eq!(user.user(Some("A@Example.com"), None, Email::normalised).unwrap(), email, "in any case");
        assert_eq!(user.user(Some("b@example.com"), None, Email::normalised).unwrap_err().status(), 403);
        assert_eq!(user.user(Some("a:b"), None, Email::normalised).unwrap_err().status(), 400);
        assert_eq!(Caller::anonymous().user(None, None, Email::normalised).unwrap_err().status(), 403);
        let admin = Caller::admin();
        assert_eq!(admin.user(Some("a@example.com"), None, Email::normalised).unwrap(), email);
        assert_eq!(user.user(Some("A@Example.com"), None, Email::verbatim).unwrap(), email, "their own");
        for foreign in ["jürgen@münchen.example", "a@[127.0.0.1]"] {
            assert_eq!(admin.user(Some(foreign), None, Email::verbatim).unwrap().as_str(), foreign);
            assert_eq!(admin.user(Some(foreign), None, Email::normalised).unwrap_err().status(), 400);
        }
        assert_eq!(admin.user(None, None, Email::normalised).unwrap_err().status(), 400);
        assert_eq!(admin.user(None, Some(&email), Email::normalised).unwrap(), email);
        let named = Caller { email: Some("a@example.com".to_owned()), ..admin };
        assert_eq!(named.user(None, None, Email::normalised).unwrap(), email);
        assert_eq!(
            named.user(Some("b@example.com"), None, Email::normalised).unwrap().as_str(),
            "b@example.com"
        );
    }
}
