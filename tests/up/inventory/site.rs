//! A site of a few lines that counts how often each of its pages was asked for, and the program that is to fetch them.

use crate::lab::{Lab, Up};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What is below `/ok/` is a page, below `/broken/` a failure that passes, below `/gone/` one that does not, and
/// `/image` no text. `/no/` is forbidden by robots.txt.
pub(crate) struct Site {
    pub(crate) port: u16,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Site {
    pub(crate) fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let counted = asked.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = counted.clone();
                thread::spawn(move || answer(stream, &counted));
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How often this page was asked for.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.asked.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    /// How often any page was asked for.
    pub(crate) fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }

    /// A data directory whose settings let the site be fetched, without a pause.
    pub(crate) fn lab(&self, settings: &str) -> Lab {
        Lab::new(&format!(
            "{settings}\n[fetch]\nmin_delay = \"0s\"\nallow = [\"127.0.0.1/32:{}\"]\n[rate_limit]\nbackoff_delay = \"10ms\"\n\
             max_backoff_delay = \"20ms\"\nbreaker_failures = 0\n[log]\nlevel = \"error\"\n",
            self.port
        ))
    }
}

fn answer(stream: TcpStream, asked: &Mutex<HashMap<String, usize>>) {
    let mut lines = BufReader::new(&stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    for line in lines.by_ref() {
        if line.is_ok_and(|line| line.is_empty()) {
            break;
        }
    }
    *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
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
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nvia: a\r\nvia: b\r\n\
         set-cookie: id=1; Path=/; HttpOnly\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = &stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

impl Up {
    /// Asks for a URL, which must be accepted. Answers the path of its record, and the id of the message.
    pub(crate) fn ask_for(&self, url: &str) -> (String, String) {
        let (status, accepted) = self.post("/api/urls", &json!({ "url": url }));
        assert_eq!(status, 202, "{accepted}");
        let text = |name: &str| accepted[name].as_str().unwrap().to_owned();
        (text("location"), text("message_id"))
    }

    /// Asks for a URL until it is accepted. Answers the path of its record.
    pub(crate) fn wait_accepted(&self, url: &str) -> String {
        for _ in 0..600 {
            let (status, answer) = self.post("/api/urls", &json!({ "url": url }));
            if status == 202 {
                return answer["location"].as_str().unwrap().to_owned();
            }
            assert_eq!(status, 503, "{answer}");
            thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{url} is not accepted")
    }

    /// Waits until a record is finished.
    pub(crate) fn finished(&self, location: &str) -> Value {
        self.wait(location, |record| {
            record["status"]
                .as_str()
                .is_some_and(|status| status == "COMPLETED" || status == "FAILED_PERMANENT")
        })
    }
}
