//! `[broker.rabbitmq]`: settings of the connection to RabbitMQ.

use super::{
    secret::Secret,
    tls::TlsSettings,
    value::{ByteSize, Span},
};
use serde::Deserialize;
use url::Url;

/// Limits of `max_message`: no server accepts more.
const MESSAGE_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(128 << 20));

/// Ports of AMQP without and with TLS.
const PORTS: (u16, u16) = (5672, 5671);

/// Settings of the connection to RabbitMQ.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RabbitSettings {
    url: Secret,
    host: String,
    port: u16,
    vhost: String,
    user: String,
    password: Secret,
    pub(crate) management: String,
    pub(crate) max_message: ByteSize,
    pub(crate) confirm_timeout: Span,
    pub(crate) tls: TlsSettings,
}

/// Host, virtual host and account.
#[derive(Debug)]
pub(crate) struct RabbitAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether AMQP is over TLS.
    pub(crate) amqps: bool,
    pub(crate) vhost: String,
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl RabbitSettings {
    /// Address of `url`, completed from the other settings.
    pub(crate) fn address(&self) -> Result<RabbitAddress, String> {
        let mut address = RabbitAddress {
            host: self.host.clone(),
            port: self.port,
            amqps: false,
            vhost: self.vhost.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
        };
        if self.url.expose().is_empty() {
            return Ok(address);
        }
        let expected = || {
            "expected an address such as \"amqp://user:password@host:5672/vhost\" or \"amqps://host\""
                .to_owned()
        };
        let url = Url::parse(self.url.expose()).map_err(|_| expected())?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let (Some(host), "amqp" | "amqps", None, None) = (host, url.scheme(), url.query(), url.fragment())
        else {
            return Err(expected());
        };
        address.amqps = url.scheme() == "amqps";
        if address.amqps && address.port == PORTS.0 {
            address.port = PORTS.1;
        }
        let decoded = |text: &str| percent_decoded(text).ok_or_else(expected);
        address.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        address.port = url.port().unwrap_or(address.port);
        if !url.username().is_empty() {
            address.user = decoded(url.username())?;
        }
        if let Some(password) = url.password() {
            address.password = Secret::new(decoded(password)?);
        }
        // A bare slash names no virtual host.
        if let Some(vhost) = url.path().strip_prefix('/').filter(|vhost| !vhost.is_empty()) {
            address.vhost = decoded(vhost)?;
        }
        Ok(address)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = MESSAGE_SIZES;
        if self.max_message < min || self.max_message > max {
            return Err("expected 64KiB to 128MiB".to_owned());
        }
        if self.confirm_timeout.0.is_zero() {
            return Err("expected a duration of at least \"1ms\"".to_owned());
        }
        self.address()?;
        let is_http = self.management.starts_with("http://") || self.management.starts_with("https://");
        if !self.management.is_empty() && !is_http {
            return Err("expected \"\", or an address such as \"http://rabbitmq:15672\" or \"https://rabbitmq:15671\""
                .to_owned());
        }
        self.tls.check()
    }
}

/// Percent-decoded part of a URL; `None` if it is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let octet =
            escaped.and_then(|(digits, _)| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (octet, escaped) {
            (Some(octet), Some((_, after))) => {
                octets.push(octet);
                rest = after;
            }
            _ => {
                octets.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(octets).ok()
}
