//! Client: posts requests on a schedule, and waits for the result of each.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, header::CONTENT_TYPE};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Timeout of a start, and of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

/// Client with persistent connections.
pub(crate) fn http_client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Status and body of a response.
pub(crate) async fn call(
    http: &Http,
    method: Method,
    url: &str,
    body: &str,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::builder().method(method).uri(url).header(CONTENT_TYPE, "application/json");
    let response = http.request(request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?).await?;
    Ok((response.status(), response.into_body().collect().await?.to_bytes()))
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Waits until the API is ready, and a first request completed: then the workers are, too.
pub(crate) fn wait_ready(api: &str, pages: SocketAddr, email: &str) -> anyhow::Result<()> {
    block_on(async {
        let (http, url, began) = (http_client(), format!("{api}/health/ready"), Instant::now());
        while call(&http, Method::GET, &url, "").await?.0 != StatusCode::OK {
            ensure!(began.elapsed() < TIMEOUT, "{url} does not become ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let page = format!("http://{pages}/");
        let completed = complete(&http, api, email, &page);
        tokio::time::timeout(TIMEOUT, completed).await.context("the first request does not end")?
    })
}

/// Posts requests at this rate for this time. Returns the latencies in microseconds.
pub(crate) fn run(
    api: &str,
    pages: SocketAddr,
    email: &str,
    rate: f64,
    time: Duration,
) -> anyhow::Result<Vec<u32>> {
    block_on(async {
        let (http, began) = (http_client(), Instant::now());
        let mut requests = JoinSet::new();
        for number in 0..(rate * time.as_secs_f64()) as u32 {
            let due = began + Duration::from_secs_f64(f64::from(number) / rate);
            tokio::time::sleep_until(due.into()).await;
            let (http, api, email) = (http.clone(), api.to_owned(), email.to_owned());
            let url = format!("http://{pages}/{number}");
            requests.spawn(async move {
                let completed = tokio::time::timeout(TIMEOUT, complete(&http, &api, &email, &url)).await;
                completed.context("a request does not end")??;
                anyhow::Ok(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX))
            });
        }
        let mut latencies = Vec::with_capacity(requests.len());
        while let Some(latency) = requests.join_next().await {
            latencies.push(latency??);
        }
        Ok(latencies)
    })
}

/// Posts a request, and waits until it is completed.
async fn complete(http: &Http, api: &str, email: &str, url: &str) -> anyhow::Result<()> {
    let body = json!({ "url": url, "email": email }).to_string();
    let (status, accepted) = call(http, Method::POST, &format!("{api}/api/requests"), &body).await?;
    let accepted: Value = serde_json::from_slice(&accepted).unwrap_or_default();
    ensure!(status == StatusCode::ACCEPTED, "expected status 202, got {status}: {accepted}");
    let id = accepted["id"].as_str().context("an accepted request without an id")?;
    let path = format!("{api}/api/requests/{id}?email={email}&wait=30s");
    loop {
        let (status, request) = call(http, Method::GET, &path, "").await?;
        let request: Value = serde_json::from_slice(&request).unwrap_or_default();
        match request["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("pending") => {}
            _ => bail!("expected a completed request, got {status}: {request}"),
        }
    }
}
