//! Bucket of one test on the shared server.

use crawlway_store_blob::{S3Blobs, S3Options, StaticCredentials};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::atomic::{AtomicU32, Ordering},
};

pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) endpoint: String,
}

impl Bucket {
    /// Creates a bucket.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let millis = crawlway_clock::Timestamp::now().as_millis();
        let name = format!("crawlway-{millis}-{}-{number}", std::process::id());
        let bucket = Self { name, endpoint: crawlway_testkit::servers::s3() };
        let answer = request("PUT", &bucket.url(), "");
        assert!(answer.starts_with("HTTP/1.1 200"), "creating a bucket: {answer}");
        bucket
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.endpoint, self.name)
    }

    /// Opens the bucket, with a prefix.
    pub(crate) fn open(&self, prefix: &str) -> S3Blobs {
        let keys = StaticCredentials { access_key_id: "test".into(), secret_access_key: "test".into() };
        let options = S3Options {
            prefix: prefix.to_owned(),
            region: Some("us-east-1".to_owned()),
            endpoint: Some(self.endpoint.clone()),
            path_style: true,
            credentials: Some(keys),
            ..S3Options::new(&self.name)
        };
        S3Blobs::new(options)
    }
}

/// Bucket of a server of its own, whose lifecycle rules can be read and not be written.
pub(crate) fn with_rules_of_others(rules: String) -> Bucket {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4];
            stream.read_exact(&mut head).unwrap();
            let (status, body) = match &head {
                b"GET " => ("200 OK", rules.as_str()),
                _ => ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>"),
            };
            let size = body.len();
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n");
            stream.write_all((head + body).as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // Closing with unread data would reset the connection.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    Bucket { name: "pages".to_owned(), endpoint }
}

/// Plain HTTP request, which the stand-in takes without a signature; the whole answer.
pub(crate) fn request(method: &str, url: &str, body: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
