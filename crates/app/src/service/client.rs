//! HTTP client of the gateway's JSON API. The only HTTP client of the commands.

use super::events::Events;
use crate::{config::GatewaySettings, failure::UsageError};
use anyhow::{Context, anyhow, bail};
use crawlway_gateway::Problem;
use crawlway_tls::ClientTls;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{self, HeaderName},
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    net::{IpAddr, UdpSocket},
    time::Duration,
};
use tokio::time::timeout;
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time added to the gateway's own time limit, so that its error response still arrives.
const EXTRA_TIMEOUT: Duration = Duration::from_secs(10);
/// Upper bound of a response body in bytes. The largest response is a dead letter with its body.
const MAX_BODY: usize = 1 << 30;

/// HTTP client of one gateway. Each request has a connection of its own, so that a restarted gateway is reached.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: Url,
    /// TLS of an `https` URL.
    tls: Option<ClientTls>,
    token: String,
    timeout: Duration,
}

/// Error response of the gateway: `application/problem+json`.
#[derive(Debug)]
struct ProblemResponse {
    gateway: String,
    problem: Problem,
}

impl fmt::Display for ProblemResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (from the gateway at {})", self.problem, self.gateway)
    }
}

impl std::error::Error for ProblemResponse {}

/// Response with its whole body.
struct Response {
    status: StatusCode,
    content_type: String,
    body: Bytes,
}

impl Client {
    /// Client of the gateway at a URL that [`GatewaySettings::url`] has checked.
    pub(crate) fn new(base: Url, settings: &GatewaySettings) -> Result<Self, UsageError> {
        let tls = (base.scheme() == "https").then(|| settings.tls()).transpose().map_err(UsageError)?;
        let timeout = settings.request_timeout() + EXTRA_TIMEOUT;
        Ok(Self { base, tls, token: settings.token().to_owned(), timeout })
    }

    /// Client with another timeout.
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Client that sends the token only to an address of this machine, since the token was not set for any other.
    pub(crate) fn with_token_for_this_machine_only(mut self) -> Self {
        let host = self.base.host_str().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // Only an address of this machine can be bound.
        if !ip.is_ok_and(|ip| ip.to_canonical().is_loopback() || UdpSocket::bind((ip, 0)).is_ok()) {
            self.token.clear();
        }
        self
    }

    /// Base URL for messages, such as `http://127.0.0.1:8081`.
    pub(crate) fn base_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// URL of a path such as `["api", "queues", "crawler_queue"]`.
    pub(crate) fn url<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        // Only a URL such as `mailto:` has no path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<T> {
        self.request(Method::GET, url, None).await
    }

    /// GET of a resource that may not exist: none if the gateway has the route and answers that there is none.
    pub(crate) async fn get_optional<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<Option<T>> {
        unless_missing(self.get(url).await)
    }

    /// GET of a health resource, whose body also counts with status 503.
    pub(crate) async fn get_health<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<T> {
        let response = self.send(Method::GET, url, None, &[]).await?;
        if response.status == StatusCode::SERVICE_UNAVAILABLE
            && let Ok(health) = serde_json::from_slice(&response.body)
        {
            return Ok(health);
        }
        self.decode(url, &response)
    }

    pub(crate) async fn post_empty<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<T> {
        self.request(Method::POST, url, None).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        url: &Url,
        body: &(impl Serialize + Sync),
    ) -> anyhow::Result<T> {
        self.request(Method::POST, url, Some(serde_json::to_vec(body)?)).await
    }

    /// POST with further headers.
    pub(crate) async fn post_with<T: DeserializeOwned>(
        &self,
        url: &Url,
        body: &(impl Serialize + Sync),
        headers: &[(HeaderName, &str)],
    ) -> anyhow::Result<T> {
        let response = self.send(Method::POST, url, Some(serde_json::to_vec(body)?), headers).await?;
        self.decode(url, &response)
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<T> {
        self.request(Method::DELETE, url, None).await
    }

    /// DELETE of a resource that may not exist: none if the gateway answers 404.
    pub(crate) async fn delete_optional<T: DeserializeOwned>(&self, url: &Url) -> anyhow::Result<Option<T>> {
        unless_missing(self.delete(url).await)
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &Url,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<T> {
        let response = self.send(method, url, body, &[]).await?;
        self.decode(url, &response)
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        body: Option<Vec<u8>>,
        headers: &[(HeaderName, &str)],
    ) -> anyhow::Result<Response> {
        let headers = [&[(header::ACCEPT, "application/json")], headers].concat();
        let exchange = async { read(self.open(method, url, body, &headers).await?).await };
        let sent = timeout(self.timeout, exchange).await;
        let sent = sent.map_err(|_| anyhow!("no response within {} s", self.timeout.as_secs())).flatten();
        sent.map_err(|error| {
            let advice = self.tls.as_ref().and_then(|tls| tls.advice(&format!("{error:#}")));
            let advice = advice.unwrap_or_else(|| "check that it runs there".to_owned());
            error.context(format!("cannot reach the gateway at {}; {advice}", self.base_url()))
        })
    }

    fn decode<T: DeserializeOwned>(&self, url: &Url, response: &Response) -> anyhow::Result<T> {
        let Response { status, content_type, body } = response;
        if status.is_success() {
            return serde_json::from_slice(body).with_context(|| {
                format!("unexpected response of `{}`; the gateway may have another version", url.path())
            });
        }
        if content_type.starts_with("application/problem+json")
            && let Ok(problem) = serde_json::from_slice::<Problem>(body)
        {
            return Err(ProblemResponse { gateway: self.base_url().to_owned(), problem }.into());
        }
        bail!("`{url}` answered {status}, unlike a gateway; check that one runs there")
    }

    /// Server-sent events of a resource, after the event with this id.
    pub(crate) async fn events(&self, url: &Url, last_id: &str) -> anyhow::Result<Events> {
        let headers =
            [(header::ACCEPT, "text/event-stream"), (HeaderName::from_static("last-event-id"), last_id)];
        let headers = &headers[..if last_id.is_empty() { 1 } else { 2 }];
        let opened = timeout(self.timeout, self.open(Method::GET, url, None, headers)).await;
        let opened = opened.map_err(|_| anyhow!("no response within {} s", self.timeout.as_secs())).flatten();
        let response = opened.with_context(|| format!("cannot reach the gateway at {}", self.base_url()))?;
        if response.status().is_success() {
            return Ok(Events::new(response.into_body()));
        }
        Err(self
            .decode::<serde::de::IgnoredAny>(url, &read(response).await?)
            .err()
            .unwrap_or_else(|| anyhow!("no events")))
    }

    /// Sends a request on a connection of its own, and returns the response as soon as its headers are there.
    async fn open(
        &self,
        method: Method,
        url: &Url,
        body: Option<Vec<u8>>,
        headers: &[(HeaderName, &str)],
    ) -> anyhow::Result<hyper::Response<Incoming>> {
        let (host, port) = (self.base.host_str().unwrap_or_default(), self.base.port_or_known_default());
        let connecting = crawlway_tls::dial(host, port.unwrap_or(80), self.tls.as_ref());
        let stream = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| anyhow!("no connection within {CONNECT_TIMEOUT:?}"))??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let authority = match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, authority);
        request = request.header(header::CONNECTION, "close");
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        if !self.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        match sender.send_request(request).await {
            Ok(response) => Ok(response),
            Err(error) => {
                drop(sender);
                // The connection has the cause, such as an alert of TLS.
                Err(connection.await?.err().unwrap_or(error).into())
            }
        }
    }
}

/// None if the gateway has the route and answers that there is no such resource.
fn unless_missing<T>(response: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match response {
        Err(error) if problem_of(&error).is_some_and(Problem::is_missing_object) => Ok(None),
        found => found.map(Some),
    }
}

/// Reads the whole body of a response.
async fn read(response: hyper::Response<Incoming>) -> anyhow::Result<Response> {
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let (status, content_type) = (response.status(), content_type.unwrap_or_default().to_owned());
    let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| anyhow!("the response is incomplete: {error}"))?.to_bytes();
    Ok(Response { status, content_type, body })
}

/// Problem behind an error: of the gateway's response, or of the same service layer in this process.
pub(crate) fn problem_of(error: &anyhow::Error) -> Option<&Problem> {
    match error.downcast_ref::<ProblemResponse>() {
        Some(response) => Some(&response.problem),
        None => error.downcast_ref(),
    }
}
