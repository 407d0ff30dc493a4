//! Fetch errors with stable codes for trails, metrics and the API.

use std::fmt;

macro_rules! codes {
    ($($name:ident = $text:literal, $retry:ident, $meaning:literal;)*) => {
        /// Stable code of a fetch error; `docs/errors.md` has the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FetchCode {
            $(#[doc = $meaning] $name,)*
        }

        impl FetchCode {
            /// All codes.
            pub const ALL: &[FetchCode] = &[$(FetchCode::$name),*];

            /// Code as written in trails, metrics and the API.
            pub fn as_str(self) -> &'static str {
                match self { $(FetchCode::$name => $text),* }
            }

            /// Whether a retry can succeed without a change of settings or of the site.
            pub fn is_transient(self) -> bool {
                match self { $(FetchCode::$name => codes!(@ $retry)),* }
            }

            /// Description in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(FetchCode::$name => $meaning),* }
            }
        }
    };
    (@ transient) => { true };
    (@ permanent) => { false };
}

codes! {
    UrlInvalid = "url.invalid", permanent, "the URL is not valid for a fetch";
    Dns = "dns", transient, "the DNS look-up failed";
    DnsNotFound = "dns.not_found", permanent, "the host name does not exist or has no address";
    Refused = "refused", transient, "connection refused";
    Unreachable = "unreachable", transient, "network or host unreachable";
    Reset = "reset", transient, "the connection was reset before the response was complete";
    TimeoutConnect = "timeout.connect", transient, "connect timeout";
    TimeoutFirstByte = "timeout.first_byte", transient, "timeout before the first byte of the response";
    TimeoutTotal = "timeout.total", transient, "timeout before the response was complete";
    TlsCertificate = "tls.certificate", permanent, "the server's certificate is not valid for the host";
    TlsHandshake = "tls.handshake", transient, "the TLS handshake failed";
    GuardPrivateAddress = "guard.private_address", permanent, "SSRF protection: the host has no public address";
    GuardPort = "guard.port", permanent, "SSRF protection: the port belongs to another protocol";
    RobotsDisallowed = "robots.disallowed", permanent, "disallowed by the site's robots.txt";
    RobotsUnreachable = "robots.unreachable", transient, "the site's robots.txt is unreachable, so everything is disallowed for now";
    RobotsWait = "robots.wait", transient, "the site's robots.txt is unreachable, and the item waits for the next probe";
    HttpProtocol = "http.protocol", transient, "the response is not valid HTTP";
    HttpLength = "http.length", transient, "the body ended before its Content-Length";
    HttpFlood = "http.flood", permanent, "flood: the server sends many frames with next to no content";
    HeadersTooLarge = "headers.too_large", permanent, "the response headers exceed the limit";
    BodyTooLarge = "body.too_large", permanent, "the body exceeds the limit";
    BodyEncoding = "body.encoding", permanent, "the body does not match its Content-Encoding";
    BodyBomb = "body.bomb", permanent, "decompression bomb: the decompressed body exceeds the limit";
    MemoryWait = "memory.wait", transient, "the memory budget is used up by other pages";
    RedirectLoop = "redirect.loop", permanent, "redirect loop";
    RedirectTooMany = "redirect.too_many", permanent, "too many redirects";
    RedirectInvalid = "redirect.invalid", permanent, "a redirect has no valid target";
    Blocked429 = "blocked.429", transient, "429 Too Many Requests";
    Blocked503 = "blocked.503", transient, "503 Service Unavailable";
    BlockedChallenge = "blocked.challenge", transient, "the server answers with a CAPTCHA or another challenge";
    RateLimited = "rate_limit.wait", transient, "the rate limit of the group has no free permit yet";
    BreakerOpen = "rate_limit.breaker", transient, "the circuit breaker of the group is open";
    RateLimiterUnavailable = "rate_limit.unavailable", transient, "the rate limiter is unavailable";
}

impl FetchCode {
    /// Whether no connection to the host could be opened, so that none of its pages can be fetched.
    pub fn is_no_connection(self) -> bool {
        matches!(
            self,
            FetchCode::Dns | FetchCode::Refused | FetchCode::Unreachable | FetchCode::TimeoutConnect
        )
    }

    /// Whether the error counts for the back-off and the circuit breaker of the host.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(
            self,
            FetchCode::Refused
                | FetchCode::Unreachable
                | FetchCode::Reset
                | FetchCode::TimeoutConnect
                | FetchCode::TimeoutFirstByte
                | FetchCode::TimeoutTotal
                | FetchCode::TlsHandshake
                | FetchCode::HttpProtocol
                | FetchCode::HttpLength
                | FetchCode::HttpFlood
        )
    }

    /// Whether the host blocks requests: 429, 503 or a challenge.
    pub fn is_block(self) -> bool {
        matches!(self, FetchCode::Blocked429 | FetchCode::Blocked503 | FetchCode::BlockedChallenge)
    }
}

impl fmt::Display for FetchCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error of a fetch: the code for programs, the detail for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail} ({url})")]
pub struct FetchError {
    /// Stable code.
    pub code: FetchCode,
    /// URL of the failed request: the requested one, or the target of a redirect.
    pub url: String,
    /// Detail: what was received and what was expected.
    pub detail: String,
    /// Earliest time of the next attempt, if known.
    pub not_before: Option<crawlway_store::Timestamp>,
}

/// Error of one hop, without its URL.
#[derive(Debug)]
pub(crate) struct HopError {
    pub(crate) code: FetchCode,
    pub(crate) detail: String,
    /// Whether to send the request again: a pooled connection was closed without a response, most likely while it was idle.
    /// The server may have seen the request, so that the next one needs a permit of its own.
    pub(crate) stale: bool,
}

impl HopError {
    pub(crate) fn new(code: FetchCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), stale: false }
    }

    pub(crate) fn at(self, url: &str) -> FetchError {
        FetchError { code: self.code, url: url.to_owned(), detail: self.detail, not_before: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_list_every_code() {
        let rows: Vec<String> = include_str!("../../../docs/errors.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(str::to_owned)
            .collect();
        let expected: Vec<String> = FetchCode::ALL
            .iter()
            .map(|code| {
                let retry = if code.is_transient() { "transient" } else { "permanent" };
                format!("| `{code}` | {retry} | {} |", code.meaning())
            })
            .collect();
        assert_eq!(rows, expected);
    }
}
