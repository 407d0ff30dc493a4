//! Servers that misbehave on purpose: raw bytes on a socket, on loopback.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server that is stopped when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// A server that does this with each connection.
    pub(crate) async fn start<F, R>(each: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0", each).await
    }

    /// The same at an address that is said.
    pub(crate) async fn start_on<F, R>(address: &str, each: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(each(stream));
            }
        });
        Self { address, connections, task }
    }

    /// A server that reads a request and sends these bytes back, whatever was asked, then closes.
    pub(crate) async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut stream| {
            let answer = answer.clone();
            async move {
                request(&mut stream).await;
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// A well-behaved server that answers each path on kept connections.
    pub(crate) async fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0", answer).await
    }

    /// The same at an address that is said.
    pub(crate) async fn on(address: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::start_on(address, move |mut stream| {
            let answer = answer.clone();
            async move {
                while let Some(path) = request(&mut stream).await {
                    if stream.write_all(&answer(&path)).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// A well-behaved server that answers to the whole head of each request, in lower case.
    pub(crate) async fn hearing(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::start(move |mut stream| {
            let answer = answer.clone();
            async move {
                while let Some(head) = head(&mut stream).await {
                    if stream.write_all(&answer(&head.to_ascii_lowercase())).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Reads one request without a body; its path, or nothing at the end.
pub(crate) async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    head(stream).await?.split_whitespace().nth(1).map(str::to_owned)
}

/// Reads the head of one request; nothing at the end.
pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// An answer with a body and its length.
pub(crate) fn page(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Writes the same bytes for ever.
pub(crate) async fn for_ever(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}
