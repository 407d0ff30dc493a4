//! Client of the management API: unacknowledged messages, age of the first message and rates of a queue.

use crate::options::Options;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use crawlway_tls::ClientTls;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Deserializer};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(3);
const MAX_RESPONSE_BYTES: usize = 1 << 20;

type RequestError = Box<dyn std::error::Error + Send + Sync>;

/// Value of the `Authorization` header; hidden in debug output.
struct Credentials(String);

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hidden")
    }
}

#[derive(Debug)]
pub(crate) struct Management {
    host: String,
    port: u16,
    path: String,
    tls: Option<ClientTls>,
    credentials: Credentials,
    /// Whether the present failure of TLS was logged.
    logged: AtomicBool,
}

/// Columns of a queue, and the window of its average rates.
const COLUMNS: &str = "msg_rates_age=15&msg_rates_incr=5&columns=messages_unacknowledged,head_message_timestamp,\
                       message_stats.publish_details.avg_rate,message_stats.ack_details.avg_rate";

/// Statistics of a queue, some seconds old. All fields are missing until the server has collected them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub(crate) struct QueueStats {
    /// Unacknowledged messages of all consumers.
    #[serde(default, rename = "messages_unacknowledged")]
    pub(crate) unacked: u64,
    /// Publish time of the first message in seconds, if it has one; an empty string in some versions if not.
    #[serde(default, rename = "head_message_timestamp", deserialize_with = "number_or_none")]
    pub(crate) head: Option<u64>,
    #[serde(default, rename = "message_stats")]
    rates: Rates,
}

impl QueueStats {
    /// Messages published per second.
    pub(crate) fn published(&self) -> f64 {
        self.rates.publish_details.avg_rate
    }

    /// Deliveries acknowledged per second.
    pub(crate) fn acknowledged(&self) -> f64 {
        self.rates.ack_details.avg_rate
    }
}

/// Rates; a missing one is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Rates {
    publish_details: Average,
    ack_details: Average,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Average {
    avg_rate: f64,
}

fn number_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_u64())
}

impl Management {
    /// Client, if the options have a valid URL.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let address = options.management_url.as_ref()?;
        let parsed = url::Url::parse(address).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let Some(url) = parsed else {
            let address = options.shown_management();
            tracing::warn!(
                address,
                "management API is not used: its URL must start with http:// or https://"
            );
            return None;
        };
        Some(Self {
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            tls: (url.scheme() == "https").then(|| options.tls.clone()),
            logged: AtomicBool::new(false),
            path: url.path().trim_end_matches('/').to_owned(),
            credentials: Credentials(
                BASE64_STANDARD.encode(format!("{}:{}", options.user, options.password)),
            ),
        })
    }

    /// Statistics of two queues; none if the API does not answer.
    pub(crate) async fn queue_stats(&self, vhost: &str, queues: [&str; 2]) -> Option<[QueueStats; 2]> {
        let both =
            async { tokio::try_join!(self.stats_of(vhost, queues[0]), self.stats_of(vhost, queues[1])) };
        match tokio::time::timeout(TIMEOUT, both).await {
            Ok(Ok((first, second))) => {
                self.logged.store(false, Ordering::Relaxed);
                Some([first, second])
            }
            Ok(Err(error)) => {
                let advice = self.tls.as_ref().and_then(|tls| tls.advice_for(&*error));
                match advice {
                    Some(advice) if !self.logged.swap(true, Ordering::Relaxed) => {
                        tracing::warn!(%error, "management API is not used: {advice}");
                    }
                    _ => tracing::debug!(%error, "management API request failed"),
                }
                None
            }
            Err(_) => None,
        }
    }

    async fn stats_of(&self, vhost: &str, queue: &str) -> Result<QueueStats, RequestError> {
        let escaped = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let path = format!("{}/api/queues/{}/{}?{COLUMNS}", self.path, escaped(vhost), escaped(queue));
        let stream = crawlway_tls::dial(&self.host, self.port, self.tls.as_ref()).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(path.parse::<Uri>()?)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::AUTHORIZATION, format!("Basic {}", self.credentials.0))
            .body(Empty::<Bytes>::new())?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            if !status.is_success() {
                return Err(format!("`{path}` failed with {status}").into());
            }
            Ok(serde_json::from_slice(&body)?)
        };
        tokio::select! {
            answer = answer => answer,
            ended = connection => Err(ended.err().map_or("the connection was closed".into(), RequestError::from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> QueueStats {
        serde_json::from_str(answer).unwrap()
    }

    #[test]
    fn missing_statistics_are_zero() {
        assert_eq!(read("{}"), QueueStats::default());
        let head_of = |value: &str| read(&format!("{{\"head_message_timestamp\":{value}}}")).head;
        assert_eq!(["null", "\"\"", "1794766691"].map(head_of), [None, None, Some(1_794_766_691)]);
    }

    #[test]
    fn average_rates_are_read() {
        let some = read(
            r#"{"messages_unacknowledged":3,"message_stats":{"publish_details":{"avg_rate":2.5},"ack_details":{"avg_rate":0.5}}}"#,
        );
        assert_eq!((some.unacked, some.published(), some.acknowledged()), (3, 2.5, 0.5));
        let half = read(r#"{"message_stats":{"publish_details":{"avg_rate":2.5}}}"#);
        assert_eq!((half.published(), half.acknowledged()), (2.5, 0.0));
    }
}
