//! The management API, where there is one: how much of a queue is in anybody's hands, how old its first message is, and how
//! fast messages come and go.

use crate::options::Options;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::time::Duration;
use tokio::net::TcpStream;

/// A management API that takes longer is as good as none.
const LIMIT: Duration = Duration::from_secs(3);
/// More than any answer that we ask for.
const LARGEST: usize = 1 << 20;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// User and password as they are sent, which nobody is to see.
struct Credentials(String);

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not shown")
    }
}

#[derive(Debug)]
pub(crate) struct Management {
    host: String,
    port: u16,
    path: String,
    credentials: Credentials,
}

/// What is asked for of a queue, and the averages over how long and from what steps.
const COLUMNS: &str = "msg_rates_age=15&msg_rates_incr=5&columns=messages_unacknowledged,head_message_timestamp,\
                       message_stats.publish_details.avg_rate,message_stats.ack_details.avg_rate";

/// A queue as the server has counted it some seconds ago. Everything is missing until it has done so for the first time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub(crate) struct Counted {
    /// How many messages are in anybody's hands.
    #[serde(default, rename = "messages_unacknowledged")]
    pub(crate) in_hands: u64,
    /// When the first message was published, in seconds, if it says so. An empty text in some versions where there is none.
    #[serde(default, rename = "head_message_timestamp", deserialize_with = "number_or_nothing")]
    pub(crate) head: Option<u64>,
    #[serde(default, rename = "message_stats")]
    traffic: Traffic,
}

impl Counted {
    /// How many messages a second were published to it.
    pub(crate) fn published(&self) -> f64 {
        self.traffic.publish_details.avg_rate
    }

    /// How many deliveries a second were acknowledged.
    pub(crate) fn acknowledged(&self) -> f64 {
        self.traffic.ack_details.avg_rate
    }
}

/// Missing where nothing of the kind has ever happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Traffic {
    publish_details: Average,
    ack_details: Average,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Average {
    avg_rate: f64,
}

fn number_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(serde_json::Value::deserialize(deserializer)?.as_u64())
}

impl Management {
    /// None if there is no such address, or it makes no sense, which is said once.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let address = options.management.as_ref()?;
        let parsed = url::Url::parse(address).ok().filter(|url| url.scheme() == "http");
        let Some(url) = parsed else {
            let address = options.shown_management();
            tracing::warn!(address, "not an http:// address, so the management API is not used");
            return None;
        };
        Some(Self {
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            path: url.path().trim_end_matches('/').to_owned(),
            credentials: Credentials(
                BASE64_STANDARD.encode(format!("{}:{}", options.user, options.password)),
            ),
        })
    }

    /// These two queues as the server has counted them some seconds ago; nothing if nobody can say.
    pub(crate) async fn counted(&self, vhost: &str, queues: [&str; 2]) -> Option<[Counted; 2]> {
        let both =
            async { tokio::try_join!(self.ask_about(vhost, queues[0]), self.ask_about(vhost, queues[1])) };
        match tokio::time::timeout(LIMIT, both).await {
            Ok(Ok((first, second))) => Some([first, second]),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the management API is of no help");
                None
            }
            Err(_) => None,
        }
    }

    async fn ask_about(&self, vhost: &str, queue: &str) -> Result<Counted, Failed> {
        let escaped = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        self.get(&format!("/api/queues/{}/{}?{COLUMNS}", escaped(vhost), escaped(queue))).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failed> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(format!("{}{path}", self.path).parse::<Uri>()?)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::AUTHORIZATION, format!("Basic {}", self.credentials.0))
            .body(Empty::<Bytes>::new())?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await?.to_bytes();
            if !status.is_success() {
                return Err(format!("`{path}` was answered with {status}").into());
            }
            Ok(serde_json::from_slice(&body)?)
        };
        tokio::select! {
            answer = answer => answer,
            ended = connection => Err(ended.err().map_or("the connection was closed".into(), Failed::from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Counted {
        serde_json::from_str(answer).unwrap()
    }

    #[test]
    fn what_the_server_has_not_counted_is_nothing() {
        assert_eq!(read("{}"), Counted::default());
        let head_of = |value: &str| read(&format!("{{\"head_message_timestamp\":{value}}}")).head;
        assert_eq!(["null", "\"\"", "1794766691"].map(head_of), [None, None, Some(1_794_766_691)]);
    }

    #[test]
    fn averages_are_found_where_there_was_traffic() {
        let some = read(
            r#"{"messages_unacknowledged":3,"message_stats":{"publish_details":{"avg_rate":2.5},"ack_details":{"avg_rate":0.5}}}"#,
        );
        assert_eq!((some.in_hands, some.published(), some.acknowledged()), (3, 2.5, 0.5));
        let half = read(r#"{"message_stats":{"publish_details":{"avg_rate":2.5}}}"#);
        assert_eq!((half.published(), half.acknowledged()), (2.5, 0.0));
    }
}
