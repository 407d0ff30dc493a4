//! A small site that can be down: nothing listens at its port, or its robots.txt answers 503.

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

/// The number of pages that the start page links to.
pub(crate) const PAGES: usize = 5;

/// A site on loopback. It keeps its port while it is down, so that connections are refused.
pub(crate) struct Site {
    address: SocketAddr,
    served: Arc<Served>,
    place: Mutex<Place>,
}

#[derive(Default)]
struct Served {
    robots_status: AtomicU16,
    /// The paths that were asked for.
    asked: Mutex<Vec<String>>,
}

/// What is at the port.
enum Place {
    /// Bound and not listening: connections are refused.
    Down(TcpSocket),
    Up(JoinHandle<()>),
    /// On its way from one to the other.
    Changing,
}

impl Site {
    /// A site that is down.
    pub(crate) fn down() -> Self {
        Self::at([127, 0, 0, 1])
    }

    /// A site on another host that is up.
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
        Self { address, served, place: Mutex::new(Place::Down(socket)) }
    }

    /// A site that is up.
    pub(crate) fn up() -> Self {
        let site = Self::down();
        site.comes_up();
        site
    }

    pub(crate) fn comes_up(&self) {
        let mut place = self.place.lock().unwrap();
        if let Place::Down(socket) = std::mem::replace(&mut *place, Place::Changing) {
            let listener = socket.listen(64).unwrap();
            *place = Place::Up(tokio::spawn(serve(listener, self.served.clone())));
        }
    }

    pub(crate) async fn goes_down(&self) {
        let before = std::mem::replace(&mut *self.place.lock().unwrap(), Place::Changing);
        if let Place::Up(serving) = before {
            serving.abort();
            let _ = serving.await;
        }
        *self.place.lock().unwrap() = Place::Down(bound(self.address));
    }

    pub(crate) fn robots_answers(&self, status: u16) {
        self.served.robots_status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often this path was asked for.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.served.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }

    /// How many requests were for pages.
    pub(crate) fn pages_asked(&self) -> usize {
        self.served.asked.lock().unwrap().iter().filter(|asked| *asked != "/robots.txt").count()
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

/// Answers one request, and closes.
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
    served.asked.lock().unwrap().push(path);
    let answer = format!(
        "HTTP/1.1 {status} Told\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
