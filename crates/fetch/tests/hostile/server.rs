//! Hostile servers: raw bytes on a loopback socket.

use flate2::{Compression, write::GzEncoder};
use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Server on loopback; stopped on drop.
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
    /// Server that runs this for each connection.
    pub(crate) async fn start<F, R>(each: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0", each).await
    }

    /// [`start`](Self::start) at this address.
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

    /// Server that replies to any request with these bytes and closes.
    pub(crate) async fn replying(answer: impl Into<Vec<u8>>) -> Self {
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

    /// Well-behaved server that responds by path, with keep-alive.
    pub(crate) async fn by_path(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0", answer).await
    }

    /// [`by_path`](Self::by_path) at this address.
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

    /// Well-behaved server that responds by the head of the request, in lower case.
    pub(crate) async fn by_head(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
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

/// Reads one request without a body, and returns its path; `None` at the end.
pub(crate) async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    head(stream).await?.split_whitespace().nth(1).map(str::to_owned)
}

/// Reads the head of one request; `None` at the end.
pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Response with a body and its length.
pub(crate) fn page(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Redirect to this location.
pub(crate) fn redirect(location: &str) -> Vec<u8> {
    page("302 Found", &format!("location: {location}\r\n"), b"")
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Server whose response has this `Content-Encoding`.
pub(crate) async fn encoded(encoding: &str, body: &[u8]) -> Server {
    Server::replying(page("200 OK", &format!("content-encoding: {encoding}\r\n"), body)).await
}

/// Server with an endless body.
pub(crate) async fn endless_body() -> Server {
    Server::start(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        endlessly(&mut stream, &[b'x'; 16 << 10]).await;
    })
    .await
}

/// Server with an endless head.
pub(crate) async fn endless_headers() -> Server {
    Server::start(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        endlessly(&mut stream, format!("x-{}: {}\r\n", "n".repeat(50), "v".repeat(2000)).as_bytes()).await;
    })
    .await
}

/// Server whose body comes byte by byte.
pub(crate) async fn dripping_body() -> Server {
    Server::start(|mut stream| async move {
        request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

/// Server that accepts connections and stays silent.
pub(crate) async fn silent() -> Server {
    Server::start(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await
}

/// Writes the same bytes without end.
pub(crate) async fn endlessly(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}
