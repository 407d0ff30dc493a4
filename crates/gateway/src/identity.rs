//! Identity of a request to the API: the role of the caller, and whose requests it may see.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use crawlway_store::requests::Email;
use http::request::Parts;
use std::convert::Infallible;

/// Role of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A user, who sees their own requests.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the admin token exists"))]
    User,
    /// An administrator, who names the user.
    Admin,
}

/// Who sends a request. Authentication adds it to the extensions of a request; without one the caller has the admin token, or the
/// gateway has none.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// E-mail address of a user.
    pub(crate) email: Option<Email>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or(Self { role: Role::Admin, email: None }))
    }
}

impl Caller {
    /// E-mail address of the user whose requests are meant: the caller's own, the one that an administrator names, or the default.
    pub(crate) fn user(&self, named: Option<&str>, default: Option<&Email>) -> Result<Email, Problem> {
        let named = named.map(|text| {
            Email::normalised(text).map_err(|error| Problem::invalid(error.to_string()).field("email"))
        });
        match (self.role, &self.email, named.transpose()?) {
            (_, Some(own), None) => Ok(own.clone()),
            (Role::User, Some(own), Some(named)) if named != *own => {
                Err(Problem::forbidden("`email` names another user").field("email"))
            }
            (Role::User, None, _) => Err(Problem::forbidden("the token belongs to no user")),
            (_, _, Some(named)) => Ok(named),
            (Role::Admin, None, None) => {
                default.cloned().ok_or_else(|| Problem::invalid("name the user with `email`").field("email"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_their_own_requests_and_an_administrator_names_the_user() {
        let email = Email::normalised("a@example.com").unwrap();
        let user = Caller { role: Role::User, email: Some(email.clone()) };
        assert_eq!(user.user(None, None).unwrap(), email);
        assert_eq!(user.user(Some("A@Example.com"), None).unwrap(), email, "in any case");
        assert_eq!(user.user(Some("b@example.com"), None).unwrap_err().status(), 403);
        assert_eq!(user.user(Some("a:b"), None).unwrap_err().status(), 400);
        assert_eq!(Caller { email: None, ..user }.user(None, None).unwrap_err().status(), 403);
        let admin = Caller { role: Role::Admin, email: None };
        assert_eq!(admin.user(Some("a@example.com"), None).unwrap(), email);
        assert_eq!(admin.user(None, None).unwrap_err().status(), 400);
        assert_eq!(admin.user(None, Some(&email)).unwrap(), email);
        let named = Caller { role: Role::Admin, email: Some(email.clone()) };
        assert_eq!(named.user(None, None).unwrap(), email);
        assert_eq!(named.user(Some("b@example.com"), None).unwrap().as_str(), "b@example.com");
    }
}
