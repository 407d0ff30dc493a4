//! Options of a connection to a RabbitMQ server.

use crawlway_tls::{ClientTls, TlsError};
use std::{fmt, time::Duration};

/// Address, credentials, limits and timeouts of a RabbitMQ server.
#[derive(Clone)]
pub struct Options {
    /// Host name or address of the server.
    pub host: String,
    /// AMQP port.
    pub port: u16,
    /// Whether AMQP is over TLS (`amqps`).
    pub amqps: bool,
    /// CA and client certificate of connections with TLS, to AMQP and to the management API.
    pub tls: ClientTls,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Virtual host that holds the queues.
    pub vhost: String,
    /// URL of the management API, such as `http://rabbitmq:15672` or `https://rabbitmq:15671`. Without it, depths lack the in-flight messages of other
    /// processes, the oldest age and the rates.
    pub management_url: Option<String>,
    /// Content type of published messages, such as `application/json`. Bodies are not inspected.
    pub content_type: Option<String>,
    /// Name of the connection, as the server lists it.
    pub connection_name: String,
    /// Maximum size of a message in bytes, headers included; at most the server's own limit.
    pub max_message: u64,
    /// Timeout of a publisher confirm and of any other answer. After it, the outcome of a publish is unknown.
    pub confirm_timeout: Duration,
    /// Time that a call waits for a lost connection before it fails as unavailable.
    pub connection_timeout: Duration,
    /// AMQP heartbeat interval. A peer that is silent for about three intervals is considered lost.
    pub heartbeat: Duration,
    /// `consumer_timeout` of the server: how long a delivery may stay unacknowledged. Longer leases are refused.
    pub consumer_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "rabbitmq".into(),
            port: 5672,
            amqps: false,
            tls: ClientTls::default(),
            user: "guest".into(),
            password: "guest".into(),
            vhost: "/".into(),
            management_url: None,
            content_type: None,
            connection_name: "crawlway".into(),
            // Default limit of the strictest server version.
            max_message: 16 << 20,
            confirm_timeout: Duration::from_secs(30),
            connection_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(10),
            consumer_timeout: Duration::from_secs(30 * 60),
        }
    }
}

impl Options {
    /// URL of the server, without the password.
    pub(crate) fn server(&self) -> String {
        let scheme = if self.amqps { "amqps" } else { "amqp" };
        format!("{scheme}://{}@{}:{}/{}", self.user, self.host, self.port, self.vhost.trim_start_matches('/'))
    }

    /// Refuses files for TLS that no connection uses.
    ///
    /// # Errors
    /// If a file is set, and neither AMQP nor the management API is over TLS.
    pub fn check_tls(&self) -> Result<(), TlsError> {
        let is_on = self.amqps || self.management_url.as_ref().is_some_and(|url| url.starts_with("https://"));
        self.tls.check_used(is_on, "begin the URL of RabbitMQ with `amqps://`")
    }

    /// URL of the management API, without user and password.
    pub(crate) fn shown_management(&self) -> Option<String> {
        let address = self.management_url.as_ref()?;
        let shown = url::Url::parse(address).ok().and_then(|mut url| {
            url.set_username("").ok()?;
            url.set_password(None).ok()?;
            Some(url.to_string())
        });
        // An invalid URL may contain a password anywhere.
        Some(shown.unwrap_or_else(|| "invalid URL".into()))
    }
}

/// Omits the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.server())
            .field("management", &self.shown_management())
            .field("max_message", &self.max_message)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::Management;

    #[test]
    fn debug_output_contains_no_password() {
        let with = |address: &str| Options {
            password: "hunter2".into(),
            management_url: Some(address.into()),
            ..Options::default()
        };
        let secrets = ["hunter2", "secret", "Z3Vlc3Q6aHVudGVyMg=="];
        for address in
            ["http://admin:secret@rabbit:15672", "https://secret@rabbit:15671/", "admin:secret@rabbit"]
        {
            let options = with(address);
            let shown =
                format!("{options:?} {:?} {:?}", options.shown_management(), Management::new(&options));
            assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
        }
        assert_eq!(with("http://rabbit:15672").shown_management().as_deref(), Some("http://rabbit:15672/"));
    }
}
