//! URL normalisation; the only way to construct a [`NormalUrl`].
//!
//! Normal form: scheme and host in lower case (IDNA hosts in punycode, no trailing dot), default port
//! and fragment dropped, dot segments resolved, percent-encoding normalised (upper-case hex,
//! unreserved characters decoded, all else as it came), an empty query dropped, the order of the
//! query kept. Paths keep their case unless [`UrlOptions::lowercase_paths`] asks otherwise.
//!
//! Only `http` and `https` URLs with a host are accepted. URLs with credentials are rejected: without them they are other
//! pages, and with them passwords would end up in queues, stores and logs.

mod escapes;

use std::fmt;

use thiserror::Error;
use url::Url;

use escapes::push_normal_escapes;

/// Maximum size of a URL in bytes, before and after normalisation.
pub const MAX_URL_BYTES: usize = 4096;

/// Common tracking parameters of analytics and mail tools, for [`UrlOptions::drop_parameters`].
pub const COMMON_TRACKING_PARAMETERS: &[&str] = &[
    "utm_*",
    "mc_cid",
    "mc_eid",
    "fbclid",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "msclkid",
    "yclid",
    "igshid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "vero_id",
    "oly_anon_id",
    "oly_enc_id",
    "wickedid",
    "s_cid",
    "_openstat",
];

/// Optional normalisations, which may change the page. None by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlOptions {
    /// Query parameters to drop, by name without regard to ASCII case. A trailing `*` matches any
    /// ending, as in `utm_*`.
    pub drop_parameters: Vec<String>,
    /// Lower-case the path. Off by default, since `/A` and `/a` differ on most servers.
    pub lowercase_paths: bool,
}

impl UrlOptions {
    /// Options that drop [`COMMON_TRACKING_PARAMETERS`].
    #[must_use]
    pub fn without_tracking() -> Self {
        let drop_parameters = COMMON_TRACKING_PARAMETERS.iter().map(|name| (*name).to_owned()).collect();
        Self { drop_parameters, lowercase_paths: false }
    }

    fn drops(&self, name: &str) -> bool {
        self.drop_parameters.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => {
                name.len() >= prefix.len()
                    && name.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
            }
            None => name.eq_ignore_ascii_case(pattern),
        })
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.drop_parameters.is_empty() && !self.lowercase_paths
    }
}

/// Error of URL normalisation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Empty or white space.
    #[error("url is empty, expected an absolute http or https url")]
    Empty,
    /// Longer than [`MAX_URL_BYTES`].
    #[error("url has {length} bytes, expected at most {MAX_URL_BYTES}")]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// No scheme and no base to resolve against.
    #[error("url {url:?} is relative, expected an absolute http or https url")]
    Relative {
        /// Input.
        url: String,
    },
    /// Scheme other than `http` and `https`.
    #[error("url scheme {scheme:?} is not supported, expected http or https")]
    Scheme {
        /// Scheme.
        scheme: String,
    },
    /// No host, or an invalid one.
    #[error("url {url:?} has no valid host")]
    Host {
        /// Input.
        url: String,
    },
    /// User name or password in the URL.
    #[error("url with credentials for host {host:?} is refused, expected none before the host")]
    Credentials {
        /// Host, without the credentials.
        host: String,
    },
    /// Otherwise invalid by the URL standard, such as a port out of range.
    #[error("url {url:?} is invalid: {reason}")]
    Invalid {
        /// Input.
        url: String,
        /// Reason of the parser.
        reason: String,
    },
}

/// Absolute `http` or `https` URL in normal form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NormalUrl(String);

impl NormalUrl {
    /// URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host: a name in lower-case ASCII, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let authority = self.authority();
        match authority.rfind(':') {
            Some(colon) if !authority.ends_with(']') => &authority[..colon],
            _ => authority,
        }
    }

    /// Port, explicit or by scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        let explicit = self.authority()[self.host().len()..].strip_prefix(':').and_then(|p| p.parse().ok());
        explicit.unwrap_or(if self.scheme() == "https" { 443 } else { 80 })
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        if self.0.starts_with("https") { "https" } else { "http" }
    }

    /// Scheme, host and explicit port, without a trailing slash.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.0[..self.path_start()]
    }

    /// Path and query, from the first slash.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.0[self.path_start()..]
    }

    /// Resolves `reference` against this URL and normalises it.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn join(&self, reference: &str, options: &UrlOptions) -> Result<Self, UrlError> {
        Joiner::new(self).join(reference, options)
    }

    /// Converts into text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    fn authority(&self) -> &str {
        &self.0[self.scheme().len() + 3..self.path_start()]
    }

    fn path_start(&self) -> usize {
        let authority = self.scheme().len() + 3;
        self.0[authority..].find('/').map_or(self.0.len(), |slash| authority + slash)
    }
}

impl fmt::Display for NormalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NormalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for NormalUrl {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<NormalUrl> for String {
    fn from(url: NormalUrl) -> Self {
        url.0
    }
}

/// With default options; use [`normalise`] to give others.
impl std::str::FromStr for NormalUrl {
    type Err = UrlError;

    fn from_str(input: &str) -> Result<Self, Self::Err> {
        normalise(input, &UrlOptions::default())
    }
}

/// Normalises an absolute URL; idempotent.
///
/// # Errors
/// See [`UrlError`].
pub fn normalise(input: &str, options: &UrlOptions) -> Result<NormalUrl, UrlError> {
    check_length(input)?;
    if input.trim_matches(is_trimmed).is_empty() {
        return Err(UrlError::Empty);
    }
    normal_form(Url::parse(input).map_err(|error| parse_error(input, error))?, options)
}

/// Resolves references against one base, which is parsed at most once.
#[derive(Debug)]
pub(crate) struct Joiner<'a> {
    base: &'a NormalUrl,
    parsed: Option<Url>,
}

impl<'a> Joiner<'a> {
    pub(crate) fn new(base: &'a NormalUrl) -> Self {
        Self { base, parsed: None }
    }

    pub(crate) fn join(&mut self, reference: &str, options: &UrlOptions) -> Result<NormalUrl, UrlError> {
        if options.is_plain()
            && let Some(url) = self.join_plain(reference)
        {
            return Ok(url);
        }
        check_length(reference)?;
        if self.parsed.is_none() {
            let parsed =
                Url::parse(self.base.as_str()).map_err(|error| parse_error(self.base.as_str(), error))?;
            self.parsed = Some(parsed);
        }
        let Some(base) = &self.parsed else { return Err(UrlError::Empty) };
        normal_form(base.join(reference).map_err(|error| parse_error(reference, error))?, options)
    }

    /// Fast path for plain links (`/path?query`, or an absolute URL of the same origin), joined by appending; `None` for
    /// others.
    fn join_plain(&self, reference: &str) -> Option<NormalUrl> {
        let origin = self.base.origin();
        let rest = reference.strip_prefix(origin).unwrap_or(reference);
        if !rest.starts_with('/') || !is_plain_path(rest) || origin.len() + rest.len() > MAX_URL_BYTES {
            return None;
        }
        let mut joined = String::with_capacity(origin.len() + rest.len());
        joined.push_str(origin);
        joined.push_str(rest);
        Some(NormalUrl(joined))
    }
}

/// Whether a path with an optional query is already in normal form: unreserved characters and some delimiters only, no
/// segment that starts with a dot, no empty segment, no empty query.
fn is_plain_path(rest: &str) -> bool {
    let mut previous = 0;
    let mut in_query = false;
    for byte in rest.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'~'
            | b','
            | b';'
            | b'='
            | b'+'
            | b'@'
            | b':' => {}
            b'.' if in_query || previous != b'/' => {}
            b'/' if in_query || previous != b'/' => {}
            b'&' if in_query => {}
            b'?' if !in_query => in_query = true,
            _ => return false,
        }
        previous = byte;
    }
    previous != b'?'
}

fn check_length(input: &str) -> Result<(), UrlError> {
    if input.len() > MAX_URL_BYTES {
        return Err(UrlError::TooLong { length: input.len() });
    }
    Ok(())
}

/// Characters that the URL standard strips from both ends.
fn is_trimmed(c: char) -> bool {
    c <= ' '
}

fn parse_error(input: &str, error: url::ParseError) -> UrlError {
    let url = input.to_owned();
    match error {
        url::ParseError::RelativeUrlWithoutBase => UrlError::Relative { url },
        url::ParseError::EmptyHost
        | url::ParseError::IdnaError
        | url::ParseError::InvalidIpv4Address
        | url::ParseError::InvalidIpv6Address
        | url::ParseError::InvalidDomainCharacter => UrlError::Host { url },
        other => UrlError::Invalid { url, reason: other.to_string() },
    }
}

fn normal_form(url: Url, options: &UrlOptions) -> Result<NormalUrl, UrlError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Scheme { scheme: url.scheme().to_owned() });
    }
    let Some(host) = normal_host(&url) else { return Err(UrlError::Host { url: url.into() }) };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Credentials { host: host.to_owned() });
    }
    let mut normal = String::with_capacity(url.as_str().len());
    normal.push_str(url.scheme());
    normal.push_str("://");
    normal.push_str(host);
    if let Some(port) = url.port() {
        normal.push(':');
        normal.push_str(&port.to_string());
    }
    push_normal_escapes(&mut normal, url.path(), options.lowercase_paths);
    if let Some(query) = url.query() {
        push_query(&mut normal, query, options);
    }
    check_length(&normal)?;
    Ok(NormalUrl(normal))
}

/// Host without a trailing dot; `None` if the rest is no valid host.
fn normal_host(url: &Url) -> Option<&str> {
    let host = url.host_str()?;
    let Some(bare) = host.strip_suffix('.') else { return (!host.is_empty()).then_some(host) };
    // The rest must be the same name: `1.` without its dot would be an address.
    let is_same = matches!(url::Host::parse(bare), Ok(url::Host::Domain(name)) if name == bare);
    (is_same && !bare.ends_with('.')).then_some(bare)
}

fn push_query(normal: &mut String, query: &str, options: &UrlOptions) {
    let start = normal.len();
    let mut separator = '?';
    for pair in query.split('&') {
        let before = normal.len();
        normal.push(separator);
        push_normal_escapes(normal, pair, false);
        let name = normal[before + 1..].split('=').next().unwrap_or_default();
        if !name.is_empty() && options.drops(name) {
            normal.truncate(before);
            continue;
        }
        separator = '&';
    }
    if normal.len() == start + 1 {
        normal.truncate(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_path_equals_the_parser() {
        let base = normalise("https://example.com:8443/a/b?c", &UrlOptions::default()).unwrap();
        let parsed = Url::parse(base.as_str()).unwrap();
        for reference in [
            "/x/y.html",
            "/x?a=b&c=/d..",
            "https://example.com:8443/z",
            "/",
            "/a//b",
            "/./a",
            "/a/..",
            "/?",
            "//other/x",
            "https://example.com:8443",
            "https://example.com:844/",
            "/a?b?c",
            "/a:b@c;d",
        ] {
            let slow = normal_form(parsed.join(reference).unwrap(), &UrlOptions::default()).unwrap();
            assert_eq!(base.join(reference, &UrlOptions::default()).unwrap(), slow, "for {reference}");
        }
    }

    #[test]
    fn parts_of_a_url() {
        let url = normalise("http://[::1]:8080/p?q", &UrlOptions::default()).unwrap();
        assert_eq!(
            (url.scheme(), url.host(), url.port(), url.origin()),
            ("http", "[::1]", 8080, "http://[::1]:8080")
        );
        let url = normalise("https://a.example/p?q=http://x/", &UrlOptions::default()).unwrap();
        assert_eq!((url.host(), url.port(), url.path_and_query()), ("a.example", 443, "/p?q=http://x/"));
    }
}
