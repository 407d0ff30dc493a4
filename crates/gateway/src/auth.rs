//! The admin token: who may use the gateway once one is set.

use crate::{openapi, problem::Problem, wrong_tokens::WrongTokens};
use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

/// What needs no token: orchestrators and scrapers have none.
const OPEN: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// The admin token. Only its hash is kept, so that it cannot be printed, and comparing takes the same time
/// whatever is given.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// This token; `None` if it is empty, which means that none is asked for.
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(Sha256::digest(token).into()))
    }

    fn is(&self, given: &str) -> bool {
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

/// How much a caller of what needs no token is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The caller has sent the token, or none is set and the caller is on this machine.
    Trusted,
    /// Anybody else, who is told no internal errors.
    Stranger,
}

/// Who is let in, and what is known of those who were not.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    token: Option<Token>,
    wrong: Arc<WrongTokens>,
}

impl Admission {
    /// Lets in who has this token. An answer may take this long.
    pub(crate) fn new(token: Option<Token>, time_limit: Duration) -> Self {
        Self { token, wrong: Arc::new(WrongTokens::new(time_limit / 2)) }
    }
}

/// Who asks. What a proxy passes on counts as a stranger's, since the proxy is on this machine and its callers need not be.
fn caller(token: Option<&Token>, request: &Request) -> Caller {
    let headers = request.headers();
    let trusted = match token {
        Some(token) => bearer(headers).is_some_and(|given| token.is(&given)),
        None => {
            let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
            let local = peer.is_some_and(|ConnectInfo(peer)| peer.ip().to_canonical().is_loopback());
            local && !headers.contains_key(header::FORWARDED) && !headers.contains_key("x-forwarded-for")
        }
    };
    if trusted { Caller::Trusted } else { Caller::Stranger }
}

/// Lets through who has the token, if there is one, and notes how much the caller is told. A wrong token is answered later and later.
pub(crate) async fn check(State(admission): State<Admission>, mut request: Request, next: Next) -> Response {
    let caller = caller(admission.token.as_ref(), &request);
    request.extensions_mut().insert(caller);
    let Some(token) = admission.token else { return next.run(request).await };
    let path = request.uri().path();
    // A browser that opens the documentation can only send what it asks its user for, so that there the token is also
    // taken as a password. Nowhere else: a browser would send it by itself, whoever made the request.
    let page = openapi::is_page(path);
    let given = bearer(request.headers()).or_else(|| page.then(|| password(request.headers())).flatten());
    let is_right = given.as_ref().is_some_and(|given| token.is(given));
    let open = OPEN.contains(&path) || openapi::leads_to_page(request.method(), path);
    if given.is_some() && !is_right {
        // Also where none is needed: how much is told there says whether it was right.
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        tokio::time::sleep(admission.wrong.delay(peer)).await;
    }
    if is_right || open {
        return next.run(request).await;
    }
    let problem = match given {
        Some(_) => "the token is not the one in `gateway.token`",
        None => "send the token in `gateway.token` as `Authorization: Bearer TOKEN`",
    };
    let mut answer = Problem::unauthorised(problem).into_response();
    let how = if page { "Basic realm=\"crawlway\", charset=\"UTF-8\"" } else { "Bearer" };
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(how));
    answer
}

fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (given, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    credentials(headers, "bearer").map(str::to_owned)
}

/// The password of basic authentication; the user's name does not matter.
fn password(headers: &HeaderMap) -> Option<String> {
    let decoded = BASE64_STANDARD.decode(credentials(headers, "basic")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_whole_and_never_printed() {
        let token = Token::new("hunter2").unwrap();
        assert!(token.is("hunter2"));
        for other in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "***");
        assert!(Token::new("").is_none());
    }
}
