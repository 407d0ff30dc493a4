//! Authentication with the admin token or a stored token, and authorisation by role.

use crate::{
    auth_throttle::AuthThrottle,
    caller::{Caller, CallerSlot},
    openapi,
    problem::Problem,
    routes,
    token_cache::{LookupError, TokenCache},
    token_limits::{AdmittedBody, LimitExceeded, TokenLimiter, TokenLimits},
};
use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use crawlway_clock::Clock;
use crawlway_store::{TokenHash, TokenRole};
use http::{HeaderMap, HeaderValue, header};
use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Paths without authentication, for orchestrators and metric scrapers.
const PUBLIC_PATHS: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// Start of every stored token, so that people and secret scanners recognise one.
pub(crate) const TOKEN_PREFIX: &str = "cw_";

/// Admin token. Only its hash is kept, so that it cannot be printed; the comparison takes constant time.
#[derive(Clone)]
pub struct Token(TokenHash);

impl Token {
    /// Token from the settings; `None` if it is empty, which turns authentication off.
    pub fn new(token: &str) -> Option<Self> {
        (!token.is_empty()).then(|| Self(TokenHash::of(token)))
    }

    fn matches(&self, given: &TokenHash) -> bool {
        let difference = self.0.0.iter().zip(given.0).fold(0, |all, (ours, theirs)| all | (ours ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// State of the authentication middleware.
#[derive(Debug, Clone)]
pub(crate) struct Authentication {
    token: Option<Token>,
    tokens: TokenCache,
    clock: Clock,
    limiter: TokenLimiter,
    /// Routes for the role `user`, with all routes below them.
    user_paths: Arc<[&'static str]>,
    throttle: Arc<AuthThrottle>,
}

/// Check of a stored token during a long response.
#[derive(Debug, Clone)]
pub(crate) struct TokenCheck {
    tokens: TokenCache,
    hash: TokenHash,
    clock: Clock,
}

impl TokenCheck {
    /// Whether the token is neither revoked nor expired. While the tokens cannot be read, it stays valid.
    pub(crate) async fn is_valid(&self) -> bool {
        match self.tokens.find(&self.hash).await {
            Ok(Some(token)) => {
                token.revoked_at.is_none() && token.expires_at.is_none_or(|at| at > self.clock.now())
            }
            Ok(None) => false,
            Err(_) => true,
        }
    }
}

/// Request without a valid token.
enum Refusal {
    /// No token was sent.
    Missing,
    /// The token is not valid, for this reason.
    Invalid(String),
    /// Stored tokens cannot be read.
    Unavailable(Problem),
}

impl Authentication {
    /// Authentication with the admin token or stored tokens. The delay of a wrong one stays below half the request timeout.
    pub(crate) fn new(
        token: Option<Token>,
        tokens: TokenCache,
        limits: TokenLimits,
        user_paths: Vec<&'static str>,
        clock: Clock,
        request_timeout: Duration,
    ) -> Self {
        Self {
            token,
            tokens,
            clock,
            limiter: TokenLimiter::new(limits),
            user_paths: user_paths.into(),
            throttle: Arc::new(AuthThrottle::new(request_timeout / 2)),
        }
    }

    /// Caller of a request with this token.
    async fn identify(&self, given: Option<&str>, request: &RequestOrigin) -> Result<Caller, Refusal> {
        let Some(given) = given else {
            return match self.token {
                Some(_) => Err(Refusal::Missing),
                None => Ok(Caller::unauthenticated(request.is_local)),
            };
        };
        let hash = TokenHash::of(given);
        if self.token.as_ref().is_some_and(|token| token.matches(&hash)) {
            return Ok(Caller::admin());
        }
        let unknown = || {
            Refusal::Invalid(
                "the token is not the one in `gateway.token`, nor one of `crawlway token list`".to_owned(),
            )
        };
        if !given.starts_with(TOKEN_PREFIX) {
            return Err(unknown());
        }
        let token = self.tokens.find(&hash).await.map_err(Refusal::from)?.ok_or_else(unknown)?;
        if let Some(at) = token.revoked_at {
            return Err(Refusal::Invalid(format!("token `{}` was revoked at {}", token.id, at.to_iso())));
        }
        match token.expires_at {
            Some(at) if at <= self.clock.now() => {
                Err(Refusal::Invalid(format!("token `{}` expired at {}", token.id, at.to_iso())))
            }
            _ => Ok(Caller::with_token(&token)),
        }
    }

    /// Whether a caller may use a route. `route` is its pattern, so that no spelling of a path deceives.
    fn allows(&self, caller: &Caller, route: Option<&str>) -> bool {
        let is_below = |path: &&str| {
            let rest = route.and_then(|route| route.strip_prefix(*path));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        caller.role == TokenRole::Admin || self.user_paths.iter().any(is_below)
    }
}

impl From<LookupError> for Refusal {
    fn from(error: LookupError) -> Self {
        Self::Unavailable(match error {
            LookupError::Starting => Problem::starting(
                "the process is starting and waits for the records, which have the tokens; see `/health/ready`",
            ),
            LookupError::Store(error) => {
                tracing::warn!(%error, "stored tokens cannot be read");
                Problem::unavailable("the store of the tokens does not respond; see `/health/ready`")
            }
        })
    }
}

/// Origin of a request.
struct RequestOrigin {
    peer: Option<SocketAddr>,
    /// Whether the client is on this machine. One behind a local proxy is not, since clients of the proxy need not be local.
    is_local: bool,
}

impl RequestOrigin {
    fn of(request: &Request) -> Self {
        let headers = request.headers();
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        let is_loopback = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        let is_forwarded = headers.contains_key(header::FORWARDED) || headers.contains_key("x-forwarded-for");
        Self { peer, is_local: is_loopback && !is_forwarded }
    }
}

/// Checks the token, the limits of its holder and the role, and adds the [`Caller`] to the request. Responses to wrong tokens are
/// delayed.
pub(crate) async fn check(
    State(authentication): State<Authentication>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // Basic authentication is accepted for Swagger UI only, since a browser cannot send a bearer token there. Elsewhere it
    // would allow CSRF: browsers send a saved password with every request.
    let page = openapi::is_page(path);
    let has_password = page && authentication.token.is_some();
    let given =
        bearer(request.headers()).or_else(|| has_password.then(|| password(request.headers())).flatten());
    let is_public = PUBLIC_PATHS.contains(&path)
        || openapi::is_redirect(request.method(), path)
        || routes::is_signed(path, request.uri().query());
    let origin = RequestOrigin::of(&request);
    let caller = match authentication.identify(given.as_deref(), &origin).await {
        Ok(caller) => caller,
        Err(refusal) => {
            if let Refusal::Invalid(_) = refusal {
                // Also on public paths, whose responses reveal whether the token was right.
                tokio::time::sleep(authentication.throttle.delay(origin.peer.map(|peer| peer.ip()))).await;
            }
            if !is_public {
                return refused(refusal, page);
            }
            Caller::anonymous()
        }
    };
    if let Some(CallerSlot(slot)) = request.extensions().get() {
        let _ = slot.set(caller.clone());
    }
    let mut admission = None;
    if !is_public && let (Some(id), Some(_)) = (&caller.token_id, &caller.email) {
        match authentication.limiter.admit(id, Instant::now()) {
            Ok(admitted) => admission = Some(admitted),
            Err(exceeded) => return too_many(&exceeded, authentication.limiter.limits()),
        }
    }
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if !is_public && !page && !authentication.allows(&caller, route) {
        return Problem::forbidden("this needs a token with the role `admin`; yours has the role `user`")
            .into_response();
    }
    if let (Some(given), Some(_)) = (&given, &caller.email) {
        let (tokens, clock) = (authentication.tokens.clone(), authentication.clock.clone());
        request.extensions_mut().insert(TokenCheck { tokens, hash: TokenHash::of(given), clock });
    }
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    match admission {
        Some(admission) => response.map(|body| AdmittedBody::wrap(body, admission)),
        None => response,
    }
}

fn refused(refusal: Refusal, page: bool) -> Response {
    let problem = match refusal {
        Refusal::Missing => Problem::unauthorised(
            "send the token in `gateway.token`, or one of `crawlway token add`, as `Authorization: Bearer TOKEN`",
        ),
        Refusal::Invalid(reason) => Problem::unauthorised(reason),
        Refusal::Unavailable(problem) => return problem.into_response(),
    };
    let mut response = problem.into_response();
    let scheme = if page { "Basic realm=\"crawlway\", charset=\"UTF-8\"" } else { "Bearer" };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
    response
}

fn too_many(exceeded: &LimitExceeded, limits: TokenLimits) -> Response {
    let (detail, seconds) = match exceeded {
        LimitExceeded::Rate(wait) => (
            format!(
                "this token may send {} requests per second, {} at once (`gateway.token_rate`, `gateway.token_burst`)",
                limits.rate, limits.burst
            ),
            // Rounded up, since an early repetition would be refused again.
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0),
        ),
        LimitExceeded::Concurrency => (
            format!(
                "this token may have {} requests in progress (`gateway.token_concurrency`)",
                limits.concurrency
            ),
            1,
        ),
    };
    let mut response = Problem::too_many_requests(detail).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    response
}

fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a [u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let at = value.iter().position(|octet| *octet == b' ')?;
    let (given, rest) = value.split_at(at);
    given.eq_ignore_ascii_case(scheme.as_bytes()).then(|| rest.trim_ascii())
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    credentials(headers, "bearer").map(|token| String::from_utf8_lossy(token).into_owned())
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
        assert!(token.matches(&TokenHash::of("hunter2")));
        for other in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!token.matches(&TokenHash::of(other)), "{other}");
        }
        assert_eq!(format!("{token:?}"), "***");
        assert!(Token::new("").is_none());
    }
}
