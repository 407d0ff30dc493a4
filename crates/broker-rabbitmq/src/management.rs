//! The management API, where there is one: how much of a queue is in anybody's hands.

use crate::options::Options;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
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

#[derive(Deserialize)]
struct Queue {
    /// Missing until the server has counted for the first time.
    #[serde(default)]
    messages_unacknowledged: u64,
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

    /// How many messages of these queues are in anybody's hands, as of some seconds ago; none if nobody can say.
    pub(crate) async fn in_hands(&self, vhost: &str, queues: &[String]) -> Option<u64> {
        match tokio::time::timeout(LIMIT, self.ask_about(vhost, queues)).await {
            Ok(Ok(held)) => Some(held),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the management API is of no help");
                None
            }
            Err(_) => None,
        }
    }

    async fn ask_about(&self, vhost: &str, queues: &[String]) -> Result<u64, Failed> {
        let escaped = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut held = 0;
        for queue in queues {
            let (vhost, queue) = (escaped(vhost), escaped(queue));
            let path = format!("/api/queues/{vhost}/{queue}?columns=messages_unacknowledged");
            held += self.get::<Queue>(&path).await?.messages_unacknowledged;
        }
        Ok(held)
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
