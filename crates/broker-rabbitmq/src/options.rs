//! How to reach a RabbitMQ server, and how patient to be with it.

use std::{fmt, time::Duration};

/// How to reach a RabbitMQ server, and how patient to be with it.
#[derive(Clone)]
pub struct Options {
    /// The server's host name or address.
    pub host: String,
    /// The port it takes AMQP connections on.
    pub port: u16,
    /// Who we are.
    pub user: String,
    /// What proves it.
    pub password: String,
    /// The virtual host that holds the queues.
    pub vhost: String,
    /// Where the management API answers, such as `http://rabbitmq:15672`. Without it, depths leave out what others have
    /// in flight, the oldest age and the rates.
    pub management: Option<String>,
    /// What is said of the bodies that are published here, such as `application/json`. The broker looks into none of them.
    pub content_type: Option<String>,
    /// How this process is called in the server's list of connections.
    pub name: String,
    /// The largest message, headers included, in bytes; not above the server's own limit.
    pub max_message: u64,
    /// How long a confirmation may take before the publish counts as unknown.
    pub confirm_timeout: Duration,
    /// How long a call waits for a lost connection to come back before it is answered as unavailable.
    pub patience: Duration,
    /// How often both sides show that they live; a peer that is silent for about three of these is gone.
    pub heartbeat: Duration,
    /// How long the server lets a delivery be held, its `consumer_timeout`. Longer leases are refused.
    pub consumer_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "rabbitmq".into(),
            port: 5672,
            user: "guest".into(),
            password: "guest".into(),
            vhost: "/".into(),
            management: None,
            content_type: None,
            name: "crawlway".into(),
            // What every version takes unless it is told otherwise.
            max_message: 16 << 20,
            confirm_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            heartbeat: Duration::from_secs(10),
            consumer_timeout: Duration::from_secs(30 * 60),
        }
    }
}

impl Options {
    /// The server as people write it, without the password.
    pub(crate) fn server(&self) -> String {
        format!("amqp://{}@{}:{}/{}", self.user, self.host, self.port, self.vhost.trim_start_matches('/'))
    }
}

impl Options {
    /// The address of the management API as it may be shown: without a user and a password, should it have them.
    pub(crate) fn shown_management(&self) -> Option<String> {
        let address = self.management.as_ref()?;
        let shown = url::Url::parse(address).ok().and_then(|mut url| {
            url.set_username("").ok()?;
            url.set_password(None).ok()?;
            Some(url.to_string())
        });
        // What is no address may have anything in it.
        Some(shown.unwrap_or_else(|| "not an address".into()))
    }
}

/// Without the password.
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
    fn nothing_that_is_shown_has_a_password_in_it() {
        let with = |address: &str| Options {
            password: "hunter2".into(),
            management: Some(address.into()),
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
