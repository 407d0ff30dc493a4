//! `[gateway]`: listen address, authentication and limits of the HTTP API, and the gateway that commands use.

use super::{
    layers::Origin,
    secret::Secret,
    tls::TlsSettings,
    value::{ByteSize, Number, Span},
};
use crawlway_gateway::{AccessControl, AllowedHosts, RouterOptions, Token, TokenLimits};
use crawlway_tls::ClientTls;
use serde::Deserialize;
use std::{net::SocketAddr, time::Duration};
use url::Url;

const BODIES: (ByteSize, ByteSize) = (ByteSize(1 << 10), ByteSize(64 << 20));
/// Minimum length of a token, against guessing.
const MIN_TOKEN: usize = 16;

/// Settings of the gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewaySettings {
    listen: String,
    url: String,
    token: Secret,
    token_rate: Number,
    token_burst: Number,
    token_concurrency: Number,
    allowed_hosts: Vec<String>,
    max_body: ByteSize,
    request_timeout: Span,
    allow_unauthenticated: bool,
    tls: TlsSettings,
    /// Reason why the token must not be sent to the gateway in `url`.
    #[serde(skip)]
    token_mismatch: Option<String>,
}

impl GatewaySettings {
    /// Listen address.
    pub(crate) fn listen(&self) -> Result<SocketAddr, String> {
        listen_at(&self.listen)
    }

    /// URL of the gateway that commands use, if it is set.
    pub(crate) fn url(&self) -> Option<Result<Url, String>> {
        let url = self.url.as_str();
        (!url.is_empty()).then(|| {
            let read = Url::parse(url).ok().filter(|read| {
                ["http", "https"].contains(&read.scheme())
                    && read.has_host()
                    && read.username().is_empty()
                    && read.password().is_none()
                    && read.query().is_none()
                    && read.fragment().is_none()
            });
            let expected = "expected the URL of a gateway, such as \"http://127.0.0.1:8081\" or \"https://crawl.example.org\"";
            read.ok_or_else(|| expected.to_owned())
        })
    }

    /// TLS client of commands that use a gateway behind HTTPS.
    pub(crate) fn tls(&self) -> Result<ClientTls, String> {
        self.tls.client("gateway.tls")
    }

    /// Refuses files with which no command could use the gateway in `url`.
    pub(crate) fn check_tls(&self) -> Result<(), String> {
        match self.url.starts_with("https://") {
            true => self.tls().map(drop),
            false => Ok(()),
        }
    }

    /// Records the sources of URL and token. A URL from a file in the working directory must not get a token from the
    /// environment: the author of the file would get the token.
    pub(super) fn note_origins(&mut self, url: &Origin, token: &Origin, is_explicit_file: bool) {
        self.token_mismatch = match (url, token) {
            (Origin::File { .. }, Origin::Variable(variable)) if !is_explicit_file => Some(format!(
                "the token in {variable} is not sent to {}, which is named in {url}: a file in the working directory must not \
                 say where a token goes that was given elsewhere; name that gateway with --gateway or \
                 CRAWLWAY_GATEWAY__URL, or the file with --config, or set `gateway.token` in the file, too",
                self.url
            )),
            _ => None,
        };
    }

    /// Fails if the token must not be sent to the gateway in `url`.
    pub(crate) fn check_token_is_for_url(&self) -> Result<(), String> {
        match &self.token_mismatch {
            Some(reason) if !self.token.expose().is_empty() => Err(reason.clone()),
            _ => Ok(()),
        }
    }

    /// Bearer token of the gateway and of commands; empty without authentication.
    pub(crate) fn token(&self) -> &str {
        self.token.expose()
    }

    /// Timeout of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout.0
    }

    /// Access control of the listener of this setting.
    pub(crate) fn access(&self, setting: &'static str) -> AccessControl {
        AccessControl {
            setting,
            token: !self.token.expose().is_empty(),
            allow_unauthenticated: self.allow_unauthenticated,
        }
    }

    /// Router options for this listen address: authentication, allowed hosts and request limits.
    pub(crate) fn options(&self, bound: SocketAddr) -> RouterOptions {
        RouterOptions {
            token: Token::new(self.token.expose()),
            token_limits: TokenLimits {
                rate: self.token_rate.0,
                burst: self.token_burst.0,
                concurrency: self.token_concurrency.0,
            },
            hosts: AllowedHosts::new(&self.allowed_hosts, Some(bound.ip())),
            max_body: usize::try_from(self.max_body.0).unwrap_or(usize::MAX),
            request_timeout: self.request_timeout.0,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.listen()?;
        self.url().transpose()?;
        let token = self.token.expose();
        if !token.is_empty() && (token.len() < MIN_TOKEN || !token.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(format!(
                "expected at least {MIN_TOKEN} characters that an HTTP header can carry, without spaces"
            ));
        }
        let is_host = |name: &String| !name.is_empty() && !name.contains(['/', '@', '*', ' ']);
        if !self.allowed_hosts.iter().all(is_host) {
            return Err("expected names of hosts such as \"crawl.example.org\"".to_owned());
        }
        if self.max_body < BODIES.0 || self.max_body > BODIES.1 {
            return Err("expected 1KiB to 64MiB".to_owned());
        }
        if self.request_timeout.0 < Duration::from_secs(1)
            || self.request_timeout.0 > Duration::from_secs(3600)
        {
            return Err("expected a duration from \"1s\" to \"1h\"".to_owned());
        }
        self.tls.check()
    }
}

/// Parses a listen address.
pub(super) fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address with a port such as \"127.0.0.1:8081\" or \"[::1]:8081\"";
    text.parse().map_err(|_| expected.to_owned())
}
