//! Options of the connection: account, queues and timeouts, and what the contract can use of a message.

use std::{fmt, time::Duration};

/// Bytes of a message in SQS that are kept for bookkeeping, and for the detail of its copy in the dead queue.
pub(crate) const RESERVED_BYTES: u64 = 16 << 10;

/// Longest visibility of a message after it was received.
pub(crate) const MAX_VISIBILITY: Duration = Duration::from_secs(43_200 - 2);

/// Account, queues and timeouts of SQS.
#[derive(Clone)]
pub struct Options {
    /// Region; `None` is that of the environment or the profile.
    pub region: Option<String>,
    /// URL of an endpoint other than that of the region.
    pub endpoint: Option<String>,
    /// Credentials; `None` is the standard chain: environment, profile, web identity, container, instance.
    pub credentials: Option<StaticCredentials>,
    /// Profile of the standard chain.
    pub profile: Option<String>,
    /// Role that is assumed with the credentials.
    pub role: Option<String>,
    /// Name of this client for people.
    pub client_id: String,
    /// Maximum size of a message in SQS in bytes, attributes included: `MaximumMessageSize` of the queues.
    pub max_size: u64,
    /// Visibility timeout, renewed while a delivery is leased: how long a killed process keeps its messages back.
    pub visibility: Duration,
    /// Wait of a long poll.
    pub poll_wait: Duration,
    /// Maximum number of polls of one queue at a time.
    pub pollers: usize,
    /// Timeout of a publisher confirm. After it, the outcome of a publish is unknown.
    pub publish_timeout: Duration,
    /// Timeout of any other request, and of connecting.
    pub request_timeout: Duration,
    /// Maximum age of the counts of messages: a minute on AWS, nothing on stand-ins.
    pub depth_lag: Duration,
    /// Interval of removing old rows of the ledger.
    pub cleanup_interval: Duration,
}

/// Access key of the settings.
#[derive(Clone)]
pub struct StaticCredentials {
    /// Access key id.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: String,
    /// Session token, if they are temporary.
    pub session_token: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: None,
            endpoint: None,
            credentials: None,
            profile: None,
            role: None,
            client_id: "crawlway".into(),
            max_size: 1 << 20,
            visibility: Duration::from_secs(30),
            poll_wait: Duration::from_secs(5),
            pollers: 4,
            publish_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            depth_lag: Duration::from_secs(60),
            cleanup_interval: Duration::from_secs(600),
        }
    }
}

/// Omits the credentials.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("profile", &self.profile)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Maximum size of a message of the contract: what is left of [`max_size`](Self::max_size) after base64 and bookkeeping.
    pub fn max_message(&self) -> u64 {
        self.max_size.saturating_sub(RESERVED_BYTES) / 4 * 3
    }

    /// Place of the server, for errors.
    pub(crate) fn place(&self) -> String {
        match (&self.endpoint, &self.region) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(region)) => format!("region {region}"),
            (None, None) => "the region of the environment".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_secret() {
        let credentials = StaticCredentials {
            access_key_id: "key".into(),
            secret_access_key: "hunter2".into(),
            session_token: Some("hunter3".into()),
        };
        let shown = format!("{:?}", Options { credentials: Some(credentials), ..Options::default() });
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
