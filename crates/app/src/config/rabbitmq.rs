//! `[broker.rabbitmq]`: settings of the connection to RabbitMQ.

use super::{
    secret::Secret,
    value::{ByteSize, Span},
};
use serde::Deserialize;
use url::Url;

/// Limits of `max_message`: no server accepts more.
const MESSAGE_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(128 << 20));

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
}

/// Host, virtual host and account.
#[derive(Debug)]
pub(crate) struct RabbitAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
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
            vhost: self.vhost.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
        };
        if self.url.expose().is_empty() {
            return Ok(address);
        }
        let expected = || "expected an address such as \"amqp://user:password@host:5672/vhost\"".to_owned();
        let url = Url::parse(self.url.expose()).map_err(|_| expected())?;
        if url.scheme() == "amqps" {
            return Err("TLS to RabbitMQ is not there yet; expected an address that begins with \"amqp://\""
                .to_owned());
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let (Some(host), "amqp", None, None) = (host, url.scheme(), url.query(), url.fragment()) else {
            return Err(expected());
        };
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
        if !self.management.is_empty() && !self.management.starts_with("http://") {
            return Err("expected \"\", or an address such as \"http://rabbitmq:15672\"".to_owned());
        }
        Ok(())
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
