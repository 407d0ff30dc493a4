//! `[gateway]`: where the HTTP API listens, and who may use it.

use super::{
    layers::Origin,
    secret::Secret,
    value::{ByteSize, Span},
};
use crawlway_gateway::{Access, AllowedHosts, Options, Token};
use serde::Deserialize;
use std::{net::SocketAddr, time::Duration};
use url::Url;

const BODIES: (ByteSize, ByteSize) = (ByteSize(1 << 10), ByteSize(64 << 20));
/// Minimum length of a token, against guessing.
const MIN_TOKEN: usize = 16;

/// Where the gateway listens, and who may use it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewaySettings {
    listen: String,
    url: String,
    token: Secret,
    allowed_hosts: Vec<String>,
    max_body: ByteSize,
    request_timeout: Span,
    allow_unauthenticated: bool,
    /// Why the token must not be sent to the gateway in `url`, if so.
    #[serde(skip)]
    token_is_for_another: Option<String>,
}

impl GatewaySettings {
    /// Where it listens.
    pub(crate) fn listen(&self) -> Result<SocketAddr, String> {
        listen_at(&self.listen)
    }

    /// The gateway that commands ask, if one is named.
    pub(crate) fn url(&self) -> Option<Result<Url, String>> {
        let url = self.url.as_str();
        (!url.is_empty()).then(|| {
            let read = Url::parse(url).ok().filter(|read| {
                read.scheme() == "http"
                    && read.has_host()
                    && read.username().is_empty()
                    && read.password().is_none()
                    && read.query().is_none()
                    && read.fragment().is_none()
            });
            let expected = "expected where a gateway is, such as \"http://127.0.0.1:8081\"; it is asked over plain HTTP, so \
                            that one behind TLS is asked through a tunnel";
            read.ok_or_else(|| expected.to_owned())
        })
    }

    /// Notes where the address of the gateway and the token were given. A file that merely lies in the working directory must not
    /// say where a token goes that was given elsewhere: whoever wrote the file would have it.
    pub(super) fn note_origins(&mut self, url: &Origin, token: &Origin, file_was_named: bool) {
        self.token_is_for_another = match (url, token) {
            (Origin::File { .. }, Origin::Variable(variable)) if !file_was_named => Some(format!(
                "the token in {variable} is not sent to {}, which is named in {url}: a file in the working directory must not \
                 say where a token goes that was given elsewhere; name that gateway with --gateway or \
                 CRAWLWAY_GATEWAY__URL, or the file with --config, or set `gateway.token` in the file, too",
                self.url
            )),
            _ => None,
        };
    }

    /// Refuses to send the token to the gateway in `url` if it was not set for that one.
    pub(crate) fn check_token_is_for_url(&self) -> Result<(), String> {
        match &self.token_is_for_another {
            Some(why) if !self.token.expose().is_empty() => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// The token that is asked for and sent; none if it is empty.
    pub(crate) fn token(&self) -> &str {
        self.token.expose()
    }

    /// Timeout of a request.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout.0
    }

    /// What keeps strangers out of what listens where this setting says.
    pub(crate) fn access(&self, setting: &'static str) -> Access {
        Access { setting, token: !self.token.expose().is_empty(), open_to_all: self.allow_unauthenticated }
    }

    /// Who may ask, and how much, of what listens there.
    pub(crate) fn options(&self, bound: SocketAddr) -> Options {
        Options {
            token: Token::new(self.token.expose()),
            hosts: AllowedHosts::new(&self.allowed_hosts, Some(bound.ip())),
            max_body: usize::try_from(self.max_body.0).unwrap_or(usize::MAX),
            time_limit: self.request_timeout.0,
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
        Ok(())
    }
}

/// An address to listen on.
pub(super) fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address with a port such as \"127.0.0.1:8081\" or \"[::1]:8081\"";
    text.parse().map_err(|_| expected.to_owned())
}
