//! The management API, where there is one: what other processes hold of a queue.

use crate::options::Options;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use crawlway_broker::QueueName;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use std::time::Duration;
use tokio::net::TcpStream;

/// A management API that takes longer is as good as none.
const LIMIT: Duration = Duration::from_secs(3);
/// More than any list of channels that we ask for.
const LARGEST: usize = 32 << 20;

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Management {
    host: String,
    port: u16,
    path: String,
    credentials: String,
}

#[derive(Deserialize)]
struct Consumers {
    #[serde(default)]
    consumer_details: Vec<Consumer>,
}

#[derive(Deserialize)]
struct Consumer {
    #[serde(default)]
    consumer_tag: String,
    channel_details: ChannelName,
}

#[derive(Deserialize)]
struct ChannelName {
    name: String,
}

#[derive(Deserialize)]
struct Channel {
    name: String,
    #[serde(default)]
    messages_unacknowledged: u64,
}

impl Management {
    /// None if there is no such address, or it makes no sense, which is said once.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let address = options.management.as_ref()?;
        let parsed = url::Url::parse(address).ok().filter(|url| url.scheme() == "http");
        let Some(url) = parsed else {
            tracing::warn!(address, "not an http:// address, so the management API is not used");
            return None;
        };
        Some(Self {
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            path: url.path().trim_end_matches('/').to_owned(),
            credentials: BASE64_STANDARD.encode(format!("{}:{}", options.user, options.password)),
        })
    }

    /// How many messages of a queue other consumers hold, as of some seconds ago; none if nobody can say.
    pub(crate) async fn held_by_others(
        &self,
        queue: &QueueName,
        own_tag: &str,
        options: &Options,
    ) -> Option<u64> {
        match tokio::time::timeout(LIMIT, self.ask_about(queue, own_tag, options)).await {
            Ok(Ok(held)) => Some(held),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the management API is of no help");
                None
            }
            Err(_) => None,
        }
    }

    async fn ask_about(&self, queue: &QueueName, own_tag: &str, options: &Options) -> Result<u64, Failed> {
        let vhost: String = url::form_urlencoded::byte_serialize(options.vhost.as_bytes()).collect();
        let queue: Consumers = self.get(&format!("/api/queues/{vhost}/{queue}")).await?;
        let others = queue.consumer_details.iter().filter(|consumer| consumer.consumer_tag != own_tag);
        let names: Vec<&str> = others.map(|consumer| consumer.channel_details.name.as_str()).collect();
        if names.is_empty() {
            return Ok(0);
        }
        let columns = "columns=name,messages_unacknowledged";
        let channels: Vec<Channel> = self.get(&format!("/api/vhosts/{vhost}/channels?{columns}")).await?;
        let others = channels.iter().filter(|channel| names.contains(&channel.name.as_str()));
        Ok(others.map(|channel| channel.messages_unacknowledged).sum())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failed> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(format!("{}{path}", self.path).parse::<Uri>()?)
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::AUTHORIZATION, format!("Basic {}", self.credentials))
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
