//! Minimal HTTP client.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Response with its raw head.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Keep-alive connection.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) async fn to(address: &str) -> Self {
        Self { stream: TcpStream::connect(address).await.expect("a connection") }
    }

    pub(crate) async fn get(&mut self, host: &str, path: &str, headers: &str) -> std::io::Result<Reply> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut reply = Reply { status, head, body: Vec::new() };
        let length = reply.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        if status != 304 {
            reply.body = vec![0; length];
            self.stream.read_exact(&mut reply.body).await?;
        }
        Ok(reply)
    }
}

/// Sends one request on a new connection.
pub(crate) async fn get(url: &str, headers: &str) -> std::io::Result<Reply> {
    let rest = url.strip_prefix("http://").expect("plain HTTP");
    let (authority, path) = rest.split_at(rest.find('/').expect("a path"));
    Client::to(authority).await.get(authority, path, headers).await
}
