//! Errors with stable codes: what trails, metrics and the API call them, and whether trying again can help.

use std::fmt;

macro_rules! codes {
    ($($name:ident = $text:literal, $retry:ident, $meaning:literal;)*) => {
        /// What went wrong, by a code that never changes. The whole table is in `docs/errors.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The code as trails, metrics and the API have it.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),* }
            }

            /// Whether trying again later can help without anyone changing anything.
            pub fn is_transient(self) -> bool {
                match self { $(Code::$name => codes!(@ $retry)),* }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning),* }
            }
        }
    };
    (@ transient) => { true };
    (@ permanent) => { false };
}

codes! {
    UrlInvalid = "url.invalid", permanent, "the URL is not one that can be fetched";
    Dns = "dns", transient, "the host name could not be looked up right now";
    DnsNotFound = "dns.not_found", permanent, "the host name does not exist or has no address";
    Refused = "refused", transient, "nothing listens at that address";
    Unreachable = "unreachable", transient, "there is no way to that address";
    Reset = "reset", transient, "the connection broke before the answer was whole";
    TimeoutConnect = "timeout.connect", transient, "the connection was not made in time";
    TimeoutFirstByte = "timeout.first_byte", transient, "the server did not begin to answer in time";
    TimeoutTotal = "timeout.total", transient, "the answer was not whole in time";
    TlsCertificate = "tls.certificate", permanent, "the server's certificate is not valid for the host";
    TlsHandshake = "tls.handshake", transient, "no encrypted connection could be agreed on";
    GuardPrivateAddress = "guard.private_address", permanent, "the host has an address that must not be reached from here";
    GuardPort = "guard.port", permanent, "the port is one that no web server has";
    RobotsDisallowed = "robots.disallowed", permanent, "the site's robots.txt forbids it";
    RobotsUnreachable = "robots.unreachable", transient, "the site's robots.txt could not be read, so everything is forbidden for now";
    RobotsWait = "robots.wait", transient, "the site's robots.txt cannot be reached right now, and the item waits for the next probe";
    HttpProtocol = "http.protocol", transient, "what the server sent is not HTTP";
    HttpLength = "http.length", transient, "the body ended before its announced length";
    HttpFlood = "http.flood", permanent, "the server sends far more pieces than its answer has content";
    HeadersTooLarge = "headers.too_large", permanent, "the answer's headers are larger than allowed";
    BodyTooLarge = "body.too_large", permanent, "the body is larger than allowed";
    BodyEncoding = "body.encoding", permanent, "the body is not encoded as announced";
    BodyBomb = "body.bomb", permanent, "the body grows beyond the allowed size when it is decompressed";
    MemoryWait = "memory.wait", transient, "other pages have all the memory that pages may take together";
    RedirectLoop = "redirect.loop", permanent, "the redirects lead back to where they have been";
    RedirectTooMany = "redirect.too_many", permanent, "there are more redirects than allowed";
    RedirectInvalid = "redirect.invalid", permanent, "a redirect leads to something that can't be fetched";
    Blocked429 = "blocked.429", transient, "the server asks for fewer requests";
    Blocked503 = "blocked.503", transient, "the server is overloaded or down for a while";
    BlockedChallenge = "blocked.challenge", transient, "the server wants proof of a person before it answers";
    GateWait = "gate.wait", transient, "it is not this group's turn yet";
    GateOpen = "gate.breaker", transient, "the group failed too often and is left alone for a while";
    GateUnavailable = "gate.unavailable", transient, "the politeness gate cannot be reached";
}

impl Code {
    /// Whether no connection to the host could be made, so that none of its pages can be fetched.
    pub fn is_no_connection(self) -> bool {
        matches!(self, Code::Dns | Code::Refused | Code::Unreachable | Code::TimeoutConnect)
    }

    /// Whether the failure is the host's rather than the page's: it could not be reached, or broke off. Counts for the host's back-off and circuit breaker.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(
            self,
            Code::Refused
                | Code::Unreachable
                | Code::Reset
                | Code::TimeoutConnect
                | Code::TimeoutFirstByte
                | Code::TimeoutTotal
                | Code::TlsHandshake
                | Code::HttpProtocol
                | Code::HttpLength
                | Code::HttpFlood
        )
    }

    /// Whether the host answers, and asks to be left alone for a while.
    pub fn is_block(self) -> bool {
        matches!(self, Code::Blocked429 | Code::Blocked503 | Code::BlockedChallenge)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A fetch that failed: the code for programs, the detail for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail} ({url})")]
pub struct FetchError {
    /// What went wrong.
    pub code: Code,
    /// The URL at which it did: the one asked for, or one it redirected to.
    pub url: String,
    /// What was seen, what was expected.
    pub detail: String,
    /// When to try again at the earliest, if that is known.
    pub not_before: Option<crawlway_store::Timestamp>,
}

/// What went wrong at one hop, before the URL is known to the one who says it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) code: Code,
    pub(crate) detail: String,
    /// A connection that had been kept broke without an answer. Most likely the server had closed it while it rested,
    /// which says nothing about the server; but it may have seen the request, so that another one needs a turn of its
    /// own.
    pub(crate) stale: bool,
}

impl Trouble {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
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
    fn the_document_has_every_code() {
        let rows: Vec<String> = include_str!("../../../docs/errors.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(str::to_owned)
            .collect();
        let expected: Vec<String> = Code::ALL
            .iter()
            .map(|code| {
                let retry = if code.is_transient() { "transient" } else { "permanent" };
                format!("| `{code}` | {retry} | {} |", code.meaning())
            })
            .collect();
        assert_eq!(rows, expected);
    }
}
