//! Test site with outages: refused connections, or a robots.txt with 503.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

/// Number of pages that the start page links to.
pub(crate) const PAGES: usize = 5;

/// Site on loopback. It stays bound to its port while it is down, so that connections are refused.
pub(crate) struct Site {
    address: SocketAddr,
    served: Arc<Served>,
    socket: Mutex<Socket>,
}

#[derive(Default)]
struct Served {
    robots_status: AtomicU16,
    /// Requested paths.
    requests: Mutex<Vec<String>>,
}

/// State of the port.
enum Socket {
    /// Bound and not listening: connections are refused.
    Down(TcpSocket),
    Up(JoinHandle<()>),
    /// Between the two.
    Changing,
}

impl Site {
    /// Site that is down.
    pub(crate) fn down() -> Self {
        Self::at([127, 0, 0, 1])
    }

    /// Site on another host that is up.
    pub(crate) fn up_elsewhere() -> Self {
        let site = Self::at([127, 0, 0, 2]);
        site.comes_up();
        site
    }

    fn at(host: [u8; 4]) -> Self {
        let socket = bound((host, 0).into());
        let address = socket.local_addr().unwrap();
        let served = Arc::new(Served::default());
        served.robots_status.store(200, Ordering::SeqCst);
        Self { address, served, socket: Mutex::new(Socket::Down(socket)) }
    }

    /// Site that is up.
    pub(crate) fn up() -> Self {
        let site = Self::down();
        site.comes_up();
        site
    }

    pub(crate) fn comes_up(&self) {
        let mut state = self.socket.lock().unwrap();
        if let Socket::Down(socket) = std::mem::replace(&mut *state, Socket::Changing) {
            let listener = socket.listen(64).unwrap();
            *state = Socket::Up(tokio::spawn(serve(listener, self.served.clone())));
        }
    }

    pub(crate) async fn goes_down(&self) {
        let before = std::mem::replace(&mut *self.socket.lock().unwrap(), Socket::Changing);
        if let Socket::Up(serving) = before {
            serving.abort();
            let _ = serving.await;
        }
        *self.socket.lock().unwrap() = Socket::Down(bound(self.address));
    }

    pub(crate) fn robots_answers(&self, status: u16) {
        self.served.robots_status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Number of requests for this path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.served.requests.lock().unwrap().iter().filter(|requested| *requested == path).count()
    }

    /// Number of requests for pages.
    pub(crate) fn page_requests(&self) -> usize {
        self.served.requests.lock().unwrap().iter().filter(|requested| *requested != "/robots.txt").count()
    }
}

fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

async fn serve(listener: TcpListener, served: Arc<Served>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, served.clone()));
    }
}

/// Answers one request, and closes the connection.
async fn answer(mut stream: TcpStream, served: Arc<Served>) {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part).await {
            Ok(read) if read > 0 => head.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split_whitespace().nth(1).unwrap_or("/").to_owned();
    let (status, kind, body) = match path.as_str() {
        "/robots.txt" => {
            (served.robots_status.load(Ordering::SeqCst), "text/plain", "User-agent: *\n".to_owned())
        }
        "/" => {
            let links: String = (0..PAGES).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
            (200, "text/html", format!("<title>start</title>{links}"))
        }
        other => {
            (200, "text/html", format!("<title>{other}</title><p>page {other} and some words of its own"))
        }
    };
    served.requests.lock().unwrap().push(path);
    let response = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}
