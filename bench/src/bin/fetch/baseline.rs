//! What it is compared to: hyper-util's client in a loop, with nothing around it.

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) async fn run(
    server: SocketAddr,
    requests: usize,
    size: usize,
    at_a_time: usize,
) -> anyhow::Result<Duration> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..at_a_time)
        .map(|_| {
            let (client, next) = (client.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return anyhow::Ok(());
                    }
                    let url = format!("http://{server}/page/{number}").parse()?;
                    let body = client.get(url).await?.into_body().collect().await?.to_bytes();
                    ensure!(body.len() == size, "a page is missing");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(started.elapsed())
}
