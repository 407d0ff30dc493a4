//! Small web site that counts the requests for each page, and helpers for the URL routes of the gateway.

use crate::lab::{Lab, Up};
use crawlway_testkit::web;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Below `/ok/` are pages, below `/broken/` temporary failures (500), below `/gone/` permanent ones (404). `/image` is no
/// text. robots.txt disallows `/no/`.
pub(crate) struct Site {
    pub(crate) port: u16,
    requests: Arc<Mutex<HashMap<String, usize>>>,
    /// Whether a page takes [`SLOW`].
    pub(crate) is_slow: Arc<AtomicBool>,
}

/// Latency of a page while the site is slow.
const SLOW: Duration = Duration::from_secs(2);

impl Site {
    pub(crate) fn serve() -> Self {
        Self::serve_at(0)
    }

    /// Serves on this port; 0 is any free one.
    pub(crate) fn serve_at(port: u16) -> Self {
        let requests: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let is_slow = Arc::new(AtomicBool::new(false));
        let (counted, slow) = (requests.clone(), is_slow.clone());
        let port = web::serve(&[Ipv4Addr::LOCALHOST], port, move |request| {
            if slow.load(Ordering::SeqCst) && request.path.starts_with("/ok/") {
                thread::sleep(SLOW);
            }
            respond(&request.path, &counted)
        });
        Self { port, requests, is_slow }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Number of requests for a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.requests.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// Number of all requests.
    pub(crate) fn all_requests(&self) -> usize {
        self.requests.lock().unwrap().values().sum()
    }

    /// Test environment whose settings allow the site, without a minimum delay.
    pub(crate) fn lab(&self, settings: &str) -> Lab {
        lab(self.port, settings)
    }
}

/// Test environment whose settings allow a site on this port, without a minimum delay.
pub(crate) fn lab(port: u16, settings: &str) -> Lab {
    Lab::new(&format!(
        "{settings}\n[fetch]\nmin_delay = \"0s\"\nallow = [\"127.0.0.1/32:{port}\"]\n[rate_limit]\nbackoff_delay = \"10ms\"\n\
         max_backoff_delay = \"20ms\"\nbreaker_failures = 0\n[log]\nlevel = \"error\"\n"
    ))
}

fn respond(path: &str, requests: &Mutex<HashMap<String, usize>>) -> Vec<u8> {
    *requests.lock().unwrap().entry(path.to_owned()).or_default() += 1;
    let page = format!("<title>{path}</title>caf\u{e9}\0");
    let (status, kind, body) = match path.split('/').nth(1) {
        Some("robots.txt") => ("200 OK", "text/plain", b"User-agent: *\nDisallow: /no/\n".to_vec()),
        Some("ok" | "no") => {
            let latin = page.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
            ("200 OK", "text/html; charset=iso-8859-1", latin)
        }
        Some("image") => ("200 OK", "image/png", vec![0x89, b'P', b'N', b'G', 0, 1]),
        Some("broken") => ("500 Oh No", "text/plain", b"broken".to_vec()),
        _ => ("404 Not Found", "text/plain", Vec::new()),
    };
    let headers = format!(
        "content-type: {kind}\r\nvia: a\r\nvia: b\r\nset-cookie: id=1; Path=/; HttpOnly\r\nconnection: close\r\n"
    );
    web::response(status, &headers, &body)
}

impl Up {
    /// Posts a URL, which must be accepted. Returns the path of its record and the id of the message.
    pub(crate) fn post_url(&self, url: &str) -> (String, String) {
        let (status, accepted) = self.post("/api/urls", &json!({ "url": url }));
        assert_eq!(status, 202, "{accepted}");
        let text = |name: &str| accepted[name].as_str().unwrap().to_owned();
        (text("location"), text("message_id"))
    }

    /// Posts a URL until it is accepted. Returns the path of its record.
    pub(crate) fn wait_accepted(&self, url: &str) -> String {
        for _ in 0..600 {
            let (status, response) = self.post("/api/urls", &json!({ "url": url }));
            if status == 202 {
                return response["location"].as_str().unwrap().to_owned();
            }
            assert_eq!(status, 503, "{response}");
            thread::sleep(Duration::from_millis(100));
        }
        panic!("{url} is not accepted")
    }

    /// Waits until a record is `COMPLETED` or `FAILED_PERMANENT`.
    pub(crate) fn wait_finished(&self, location: &str) -> Value {
        self.wait(location, |record| {
            record["status"]
                .as_str()
                .is_some_and(|status| status == "COMPLETED" || status == "FAILED_PERMANENT")
        })
    }
}
