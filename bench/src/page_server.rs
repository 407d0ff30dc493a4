//! HTTP server on loopback in its own thread, with the same page for every path and no robots.txt.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, net::SocketAddr, sync::mpsc, thread};
use tokio::net::TcpListener;

/// Starts the server with a page of this size; it ends with the process.
pub fn serve(size: usize) -> anyhow::Result<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => drop(runtime.block_on(listen(size, sender))),
            Err(error) => drop(sender.send(Err(error))),
        }
    });
    receiver.recv().context("the server ended")?.context("the server did not start")
}

async fn listen(size: usize, sender: mpsc::Sender<std::io::Result<SocketAddr>>) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let _ = sender.send(listener.local_addr());
    let page = Bytes::from(vec![b'x'; size]);
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let page = page.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let missing = request.uri().path() == "/robots.txt";
                let mut response =
                    Response::new(Full::new(if missing { Bytes::new() } else { page.clone() }));
                let html = HeaderValue::from_static("text/html; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, html);
                if missing {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                async move { Ok::<_, Infallible>(response) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
