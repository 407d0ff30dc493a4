//! Request and response of a fetch.

use crate::{limits::Limits, memory::MemoryReservation, robots};
use bytes::Bytes;
use crawlway_content::NormalUrl;
use crawlway_store::rate_limiter::{self, Group, Ticket};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Request for one page, with its limits.
#[derive(Debug, Clone)]
pub struct Request {
    /// URL of the page.
    pub url: NormalUrl,
    /// Ticket at the rate limiter; the same in every attempt of an item.
    pub ticket: Ticket,
    /// Rate-limit group; the host by default. A redirect to another host uses the group of that host.
    pub group: Option<Group>,
    /// Rate limit of the group: concurrency and minimum delay.
    pub rate_limit: rate_limiter::RateLimits,
    /// Behaviour when no permit is free.
    pub on_rate_limit: OnRateLimit,
    /// Whether robots.txt is obeyed, for redirects too.
    pub obey_robots: bool,
    /// Maximum wait for an unreachable robots.txt. Until then the error is `robots.wait`, which counts no attempt;
    /// afterwards it is `robots.unreachable`, once for each probe.
    pub robots_max_wait: Duration,
    /// User agent and other headers.
    pub identity: Arc<Identity>,
    /// Validators of a conditional request.
    pub validators: Validators,
    /// Limits on time and size.
    pub limits: Limits,
}

impl Request {
    /// Request with the defaults: robots.txt is obeyed, concurrency 1, minimum delay 1 s.
    pub fn new(url: NormalUrl) -> Self {
        Self {
            ticket: Ticket::of(url.as_str()),
            url,
            group: None,
            rate_limit: rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(1)),
            on_rate_limit: OnRateLimit::Wait { max_wait: Duration::from_secs(60) },
            obey_robots: true,
            robots_max_wait: Duration::ZERO,
            identity: Arc::new(Identity::default()),
            validators: Validators::default(),
            limits: Limits::default(),
        }
    }
}

/// Behaviour of a fetch when the rate limiter grants no permit yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRateLimit {
    /// Wait in the call; fail with `rate_limit.wait` if the wait would exceed the maximum.
    Wait {
        /// Maximum wait for one permit.
        max_wait: Duration,
    },
    /// Fail at once with `rate_limit.wait` and the time of the reserved slot, so that the item can be deferred to it.
    /// A redirect still waits up to 20 s, since the whole fetch would start over.
    Defer,
}

/// Validators of a page from its last fetch, for a conditional request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// Its `ETag`, verbatim.
    pub etag: Option<String>,
    /// Its `Last-Modified`, verbatim.
    pub last_modified: Option<String>,
}

impl Validators {
    /// Validators of a response.
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { etag: text(header::ETAG), last_modified: text(header::LAST_MODIFIED) }
    }

    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let pairs = [(header::IF_NONE_MATCH, &self.etag), (header::IF_MODIFIED_SINCE, &self.last_modified)];
        for (name, value) in pairs {
            if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
    }
}

/// Identity of the client: its user agent, its other headers, and its product token in robots.txt.
#[derive(Debug)]
pub struct Identity {
    headers: HeaderMap,
    robots_token: String,
}

/// Default user agent.
pub const USER_AGENT: &str = concat!("crawlway/", env!("CARGO_PKG_VERSION"));

impl Default for Identity {
    fn default() -> Self {
        Self::of(HeaderValue::from_static(USER_AGENT))
    }
}

/// Invalid identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The user agent is no valid header value.
    #[error("the user agent `{0}` cannot be sent; it must not have line breaks")]
    UserAgent(String),
    /// The product token has characters that robots.txt does not allow.
    #[error("`{0}` is not a product token; use letters, digits, `-` and `_`, such as `crawlway`")]
    Token(String),
}

impl Identity {
    /// Identity with this user agent.
    pub fn user_agent(agent: &str) -> Result<Self, IdentityError> {
        HeaderValue::try_from(agent).map(Self::of).map_err(|_| IdentityError::UserAgent(agent.to_owned()))
    }

    fn of(agent: HeaderValue) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, agent);
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        );
        headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static("en;q=0.8,*;q=0.5"));
        Self { headers, robots_token: robots::AGENT.to_owned() }
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// The same identity with another product token for robots.txt.
    pub fn with_robots_token(mut self, token: &str) -> Result<Self, IdentityError> {
        let is_token = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        if token.is_empty() || !token.bytes().all(is_token) {
            return Err(IdentityError::Token(token.to_owned()));
        }
        token.clone_into(&mut self.robots_token);
        Ok(self)
    }

    /// Product token that selects the rules in robots.txt, independent of the user agent.
    pub fn robots_token(&self) -> &str {
        &self.robots_token
    }
}

/// Response to a fetch, of any status.
#[derive(Debug)]
pub struct FetchResponse {
    /// Final URL, after redirects.
    pub url: NormalUrl,
    /// Status; 304 if the page matches the validators.
    pub status: StatusCode,
    /// HTTP version.
    pub version: Version,
    /// Headers.
    pub headers: HeaderMap,
    /// Decompressed body.
    pub body: Bytes,
    /// Size of the body on the wire.
    pub wire_bytes: usize,
    /// Redirect chain.
    pub hops: Vec<Hop>,
    /// Address of the server, which is the one that the SSRF guard has checked.
    pub address: SocketAddr,
    /// Timing of the last hop; the total and the wait for permits are of all hops.
    pub timing: Timing,
    /// Memory reserved for the body. Grow it before the body is expanded into something larger.
    pub memory_reservation: MemoryReservation,
}

impl FetchResponse {
    /// `Content-Type`.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// `Retry-After` as a delay from now.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers, SystemTime::now())
    }
}

/// One redirect of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// URL that redirected.
    pub url: NormalUrl,
    /// Status of the redirect.
    pub status: StatusCode,
}

/// Duration of each phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// DNS look-up; zero on a pooled connection.
    pub lookup: Duration,
    /// TCP connect.
    pub dial: Duration,
    /// TLS and HTTP handshake.
    pub tls: Duration,
    /// From the request to the first byte of the response.
    pub first_byte: Duration,
    /// Wait for permits of the rate limiter.
    pub rate_limit_wait: Duration,
    /// Whole fetch.
    pub total: Duration,
}

/// `Retry-After` in seconds or as a date, as a delay from `now`.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let after = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(text));
            retry_after(&headers, now)
        };
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-5"), None);
    }
}
