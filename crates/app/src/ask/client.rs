//! Asks a gateway over HTTP: JSON there and back, and a problem as an error.

use crate::config::GatewaySettings;
use anyhow::{Context, anyhow, bail};
use crawlway_gateway::Problem;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    net::{IpAddr, UdpSocket},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use url::Url;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How much longer than the gateway itself allows an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer that is read; a dead letter with its body is the largest there is.
const LARGEST: usize = 1 << 30;

/// A gateway that can be asked. Each question has a connection of its own, so that one that was started anew is found.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: Url,
    token: String,
    patience: Duration,
}

/// What the gateway says is wrong.
#[derive(Debug)]
pub(crate) struct Refused {
    gateway: String,
    pub(crate) problem: Problem,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (says the gateway at {})", self.problem, self.gateway)
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// Asks the gateway at this address, which [`GatewaySettings::url`] has checked.
    pub(crate) fn new(base: Url, settings: &GatewaySettings) -> Self {
        Self { base, token: settings.token().to_owned(), patience: settings.request_timeout() + PATIENCE }
    }

    /// The same with an answer that has to come within this time.
    pub(crate) fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same for a gateway that is said to run on this machine: one elsewhere is asked without the token, which was not set for it.
    pub(crate) fn of_this_machine(mut self) -> Self {
        let host = self.base.host_str().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // Only an address of this machine can be taken.
        if !ip.is_ok_and(|ip| ip.to_canonical().is_loopback() || UdpSocket::bind((ip, 0)).is_ok()) {
            self.token.clear();
        }
        self
    }

    /// Where it is, for people.
    pub(crate) fn shown(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The address of a thing: `["api", "queues", "crawler_queue"]`.
    pub(crate) fn address<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Url {
        let mut address = self.base.clone();
        // Only a URL such as `mailto:` has no path.
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        address
    }

    /// What is there.
    pub(crate) async fn get<T: DeserializeOwned>(&self, address: &Url) -> anyhow::Result<T> {
        self.ask(Method::GET, address, None).await
    }

    /// What is there, also when it says of itself that it is out of order.
    pub(crate) async fn look<T: DeserializeOwned>(&self, address: &Url) -> anyhow::Result<T> {
        let (status, kind, body) = self.told(Method::GET, address, None).await?;
        if status == StatusCode::SERVICE_UNAVAILABLE
            && let Ok(told) = serde_json::from_slice(&body)
        {
            return Ok(told);
        }
        self.understood(address, status, &kind, &body)
    }

    /// Has something done that needs nothing to be said.
    pub(crate) async fn poke<T: DeserializeOwned>(&self, address: &Url) -> anyhow::Result<T> {
        self.ask(Method::POST, address, None).await
    }

    /// Has something done.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        address: &Url,
        body: &(impl Serialize + Sync),
    ) -> anyhow::Result<T> {
        self.ask(Method::POST, address, Some(serde_json::to_vec(body)?)).await
    }

    /// Has something thrown away.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, address: &Url) -> anyhow::Result<T> {
        self.ask(Method::DELETE, address, None).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        address: &Url,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<T> {
        let (status, kind, body) = self.told(method, address, body).await?;
        self.understood(address, status, &kind, &body)
    }

    async fn told(
        &self,
        method: Method,
        address: &Url,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<(StatusCode, String, Bytes)> {
        let asked = timeout(self.patience, self.exchange(method, address, body)).await;
        asked.map_err(|_| anyhow!("no answer within {} s", self.patience.as_secs())).flatten().with_context(
            || format!("the gateway at {} cannot be asked; see that it runs there", self.shown()),
        )
    }

    fn understood<T: DeserializeOwned>(
        &self,
        address: &Url,
        status: StatusCode,
        kind: &str,
        body: &[u8],
    ) -> anyhow::Result<T> {
        if status.is_success() {
            return serde_json::from_slice(body).with_context(|| {
                format!("`{}` answered something else than a gateway of this version does", address.path())
            });
        }
        if kind.starts_with("application/problem+json")
            && let Ok(problem) = serde_json::from_slice::<Problem>(body)
        {
            return Err(Refused { gateway: self.shown().to_owned(), problem }.into());
        }
        bail!("`{address}` answered {status}, which a gateway does not; see that one runs there")
    }

    async fn exchange(
        &self,
        method: Method,
        address: &Url,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<(StatusCode, String, Bytes)> {
        let (host, port) = (self.base.host_str().unwrap_or_default(), self.base.port_or_known_default());
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let dialling = TcpStream::connect((name, port.unwrap_or(80)));
        let stream =
            timeout(CONNECT, dialling).await.map_err(|_| anyhow!("no connection within {CONNECT:?}"))??;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // What breaks it is told to whoever asked.
        tokio::spawn(connection);
        let path = match address.query() {
            Some(query) => format!("{}?{query}", address.path()),
            None => address.path().to_owned(),
        };
        let authority = match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, authority);
        request = request.header(header::ACCEPT, "application/json").header(header::CONNECTION, "close");
        if !self.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        let answer: hyper::Response<Incoming> = sender.send_request(request).await?;
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let (status, kind) = (answer.status(), kind.unwrap_or_default().to_owned());
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| anyhow!("the answer broke off: {error}"))?.to_bytes();
        Ok((status, kind, body))
    }
}
