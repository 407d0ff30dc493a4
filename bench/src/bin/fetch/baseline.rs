//! Baseline: a plain hyper-util client in a loop.

use crate::{join_all, spawn_requests};
use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) async fn run(
    server: SocketAddr,
    requests: usize,
    size: usize,
    concurrency: usize,
) -> anyhow::Result<Duration> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let started = Instant::now();
    join_all(spawn_requests(requests, concurrency, &Arc::default(), move |number| {
        let client = client.clone();
        async move {
            let url = format!("http://{server}/page/{number}").parse()?;
            let body = client.get(url).await?.into_body().collect().await?.to_bytes();
            ensure!(body.len() == size, "a page is incomplete");
            Ok(())
        }
    }))
    .await?;
    Ok(started.elapsed())
}
