//! What is asked for, and what comes back.

use crate::{limits::Limits, memory::Share, robots};
use bytes::Bytes;
use crawlway_content::NormalUrl;
use crawlway_store::gate::{self, Group, Ticket};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// One page to fetch, and on which terms.
#[derive(Debug, Clone)]
pub struct Request {
    /// The page.
    pub url: NormalUrl,
    /// Who asks, for the gate: the same each time the same item asks.
    pub ticket: Ticket,
    /// Whom we must not hammer; the host unless something else is said. Redirects to other hosts pass the
    /// gates of those hosts.
    pub group: Option<Group>,
    /// How much the group is asked to bear.
    pub pace: gate::Limits,
    /// What to do when it is not our turn.
    pub waiting: Waiting,
    /// Whether robots.txt is asked first, for redirects too.
    pub robots: bool,
    /// How long the item waits, uncounted, for a robots.txt that cannot be reached: until then the failure is
    /// `robots.wait`, afterwards `robots.unreachable`, once for each probe.
    pub robots_max_wait: Duration,
    /// What is sent along.
    pub identity: Arc<Identity>,
    /// What is known of the page from before.
    pub validators: Validators,
    /// Bounds.
    pub limits: Limits,
}

impl Request {
    /// A page with the defaults: robots.txt is asked, one request at a time with a second between them.
    pub fn new(url: NormalUrl) -> Self {
        Self {
            ticket: Ticket::of(url.as_str()),
            url,
            group: None,
            pace: gate::Limits::one_at_a_time(Duration::from_secs(1)),
            waiting: Waiting::Here { at_most: Duration::from_secs(60) },
            robots: true,
            robots_max_wait: Duration::ZERO,
            identity: Arc::new(Identity::default()),
            validators: Validators::default(),
            limits: Limits::default(),
        }
    }
}

/// What to do when it is not our turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Wait in the call, if it is no longer than this, else fail with `gate.wait`.
    Here {
        /// The longest wait for one turn.
        at_most: Duration,
    },
    /// Fail at once with `gate.wait` and the time of our slot, so that the item can be deferred to it.
    /// A redirect on the way waits a little all the same, rather than starting over.
    Elsewhere,
}

/// What the page was when it was last fetched, for a conditional request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// Its `ETag`, verbatim.
    pub etag: Option<String>,
    /// Its `Last-Modified`, verbatim.
    pub last_modified: Option<String>,
}

impl Validators {
    /// Those of an answer.
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

/// Who we say we are: the headers that are sent along, the user agent among them.
#[derive(Debug)]
pub struct Identity {
    headers: HeaderMap,
    robots_token: String,
}

/// Who we are, unless somebody says otherwise.
pub const USER_AGENT: &str = concat!("crawlway/", env!("CARGO_PKG_VERSION"));

impl Default for Identity {
    fn default() -> Self {
        Self::of(HeaderValue::from_static(USER_AGENT))
    }
}

/// Something that we cannot say we are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A user agent that cannot be sent.
    #[error("the user agent `{0}` cannot be sent; it must not have line breaks")]
    UserAgent(String),
    /// A product token that no robots.txt could name.
    #[error("`{0}` is not a product token; use letters, digits, `-` and `_`, such as `crawlway`")]
    Token(String),
}

impl Identity {
    /// Another user agent than the honest one.
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

    /// What is sent along.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// The same headers, but the rules in robots.txt that hold for us are those for this product token.
    pub fn with_robots_token(mut self, token: &str) -> Result<Self, IdentityError> {
        let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        if token.is_empty() || !token.bytes().all(fits) {
            return Err(IdentityError::Token(token.to_owned()));
        }
        token.clone_into(&mut self.robots_token);
        Ok(self)
    }

    /// The product token whose rules in robots.txt hold for us, whatever the user agent says.
    pub fn robots_token(&self) -> &str {
        &self.robots_token
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Fetched {
    /// Where the answer came from, after redirects.
    pub url: NormalUrl,
    /// Its status. 304 means that nothing has changed since the validators.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, decompressed.
    pub body: Bytes,
    /// How many bytes were sent for it.
    pub sent_bytes: usize,
    /// The redirects on the way.
    pub hops: Vec<Hop>,
    /// The address that answered, which is the one that was checked.
    pub address: SocketAddr,
    /// How long each part took, of the last hop; the total is of all.
    pub timing: Timing,
    /// The memory that it takes. Who makes more of the body than it is has this cover it first.
    pub share: Share,
}

impl Fetched {
    /// The content type, if there is one.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers, SystemTime::now())
    }
}

/// A redirect on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// What was asked for.
    pub url: NormalUrl,
    /// The redirect's status.
    pub status: StatusCode,
}

/// How long each part took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Looking up the name; zero on a connection that was kept.
    pub lookup: Duration,
    /// Dialling.
    pub dial: Duration,
    /// Agreeing on TLS and HTTP.
    pub tls: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Waiting at the gate.
    pub gate: Duration,
    /// Everything.
    pub total: Duration,
}

/// `Retry-After` in seconds or as a date.
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
