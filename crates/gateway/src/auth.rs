//! Authentication with the admin token.

use crate::{auth_throttle::AuthThrottle, openapi, problem::Problem};
use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

/// Paths without authentication, for orchestrators and metric scrapers.
const PUBLIC_PATHS: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// Admin token. Only its hash is kept, so that it cannot be printed; the comparison takes constant time.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// Token from the settings; `None` if it is empty, which turns authentication off.
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(Sha256::digest(token).into()))
    }

    fn matches(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        let difference = self.0.iter().zip(given).fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Trust level of a client of the public paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Client with the token, or a local client of a gateway without one.
    Trusted,
    /// Any other client; internal errors are hidden from it.
    Untrusted,
}

/// State of the authentication middleware.
#[derive(Debug, Clone)]
pub(crate) struct Authentication {
    token: Option<Token>,
    throttle: Arc<AuthThrottle>,
}

impl Authentication {
    /// Authentication with this token. The delay of a wrong one stays below half the request timeout.
    pub(crate) fn new(token: Option<Token>, request_timeout: Duration) -> Self {
        Self { token, throttle: Arc::new(AuthThrottle::new(request_timeout / 2)) }
    }
}

/// Trust level of a request. A request through a local proxy is untrusted, since the clients of the proxy need not be local.
fn caller(token: Option<&Token>, request: &Request) -> Caller {
    let headers = request.headers();
    let trusted = match token {
        Some(token) => bearer(headers).is_some_and(|given| token.matches(&given)),
        None => {
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let local = peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback());
            local && !headers.contains_key(header::FORWARDED) && !headers.contains_key("x-forwarded-for")
        }
    };
    if trusted { Caller::Trusted } else { Caller::Untrusted }
}

/// Checks the token, if one is set, and adds the [`Caller`] to the request. Responses to wrong tokens are delayed.
pub(crate) async fn check(
    State(authentication): State<Authentication>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = caller(authentication.token.as_ref(), &request);
    request.extensions_mut().insert(caller);
    let Some(token) = authentication.token else { return next.run(request).await };
    let path = request.uri().path();
    // Basic authentication is accepted for Swagger UI only, since a browser cannot send a bearer token there. Elsewhere it
    // would allow CSRF: browsers send a saved password with every request.
    let page = openapi::is_page(path);
    let given = bearer(request.headers()).or_else(|| page.then(|| password(request.headers())).flatten());
    let is_valid = given.as_ref().is_some_and(|given| token.matches(given));
    let is_public = PUBLIC_PATHS.contains(&path) || openapi::is_redirect(request.method(), path);
    if given.is_some() && !is_valid {
        // Also on public paths, whose responses reveal whether the token was right.
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        tokio::time::sleep(authentication.throttle.delay(peer)).await;
    }
    if is_valid || is_public {
        return next.run(request).await;
    }
    let problem = match given {
        Some(_) => "the token is not the one in `gateway.token`",
        None => "send the token in `gateway.token` as `Authorization: Bearer TOKEN`",
    };
    let mut response = Problem::unauthorised(problem).into_response();
    let scheme = if page { "Basic realm=\"crawlway\", charset=\"UTF-8\"" } else { "Bearer" };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    response
}

fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (given, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    credentials(headers, "bearer").map(str::to_owned)
}

/// Password of basic authentication; the user name is ignored.
fn password(headers: &HeaderMap) -> Option<String> {
    let decoded = BASE64_STANDARD.decode(credentials(headers, "basic")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_in_full_and_never_printed() {
        let token = Token::new("hunter2").unwrap();
        assert!(token.matches("hunter2"));
        for other in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!token.matches(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "***");
        assert!(Token::new("").is_none());
    }
}
