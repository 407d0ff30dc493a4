//! Server-sent events, also across two gateways and a restart.

use super::deployment::{EMAIL, Shared, ready, single_process};
use crate::inventory::Site;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

/// Client of the event stream.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    last_id: String,
}

impl Events {
    pub(crate) fn open(address: &str, last_id: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let header = if last_id.is_empty() { String::new() } else { format!("last-event-id: {last_id}\r\n") };
        let request =
            format!("GET /api/requests/events?email={EMAIL} HTTP/1.0\r\nhost: {address}\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self { lines: BufReader::new(stream), last_id: last_id.to_owned() };
        let head: Vec<String> =
            std::iter::from_fn(|| events.line()).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains("200"), "{head:?}");
        assert!(head.iter().any(|line| line.to_lowercase() == "content-type: text/event-stream"), "{head:?}");
        // The first event has the position alone.
        while events.line().is_some_and(|line| !line.is_empty()) {}
        events
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.lines.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
    }

    /// Id and status of the next change.
    pub(crate) fn next(&mut self) -> (String, String) {
        loop {
            let line = self.line().expect("an event");
            if let Some(id) = line.strip_prefix("id: ") {
                id.clone_into(&mut self.last_id);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                let text = |name: &str| data[name].as_str().unwrap().to_owned();
                // The id follows the data or precedes it; the event ends with an empty line.
                while let Some(line) = self.line().filter(|line| !line.is_empty()) {
                    if let Some(id) = line.strip_prefix("id: ") {
                        id.clone_into(&mut self.last_id);
                    }
                }
                return (text("id"), text("status"));
            }
        }
    }
}

fn change(id: &str, status: &str) -> (String, String) {
    (id.to_owned(), status.to_owned())
}

#[test]
fn changes_are_streamed_and_resumed_after_a_restart() {
    let site = Site::serve();
    let lab = single_process(&site, "");
    let mut up = ready(lab.up());
    let before = up.add_request(&site.url("/ok/0"));
    up.wait_request(&before);
    let mut events = Events::open(&up.address, "");
    let id = up.add_request(&site.url("/ok/1"));
    assert_eq!(events.next(), change(&id, "pending"), "from now on");
    assert_eq!(events.next(), change(&id, "completed"));
    let last_id = events.last_id.clone();
    drop(events);
    let missed = up.add_request(&site.url("/gone/1"));
    up.wait_request(&missed);
    up.signal(Signal::TERM);
    assert!(up.wait_exit().success());
    let up = ready(lab.up());
    let mut events = Events::open(&up.address, &last_id);
    assert_eq!(events.next(), change(&missed, "pending"), "what was missed");
    assert_eq!(events.next(), change(&missed, "failed"));
    let new = up.add_request(&site.url("/ok/2"));
    assert_eq!(events.next(), change(&new, "pending"));
    assert_eq!(events.next(), change(&new, "completed"));
}

#[test]
fn a_response_reaches_the_clients_of_another_gateway() {
    let site = Site::serve();
    let shared = Shared::new(&site, "", "two-gateways");
    let consuming = shared.start_gateway();
    // The other gateway consumes no responses.
    let other_lab = shared.another(&site);
    let other = ready(other_lab.up_with(&["up", "--only", "gateway", "--json"]));
    let mut events = Events::open(&other.address, "");
    let _worker = shared.start_worker();
    let id = other.add_request(&site.url("/ok/1"));
    let request = other.wait_request(&id);
    assert_eq!(request["status"], "completed", "{request}");
    assert_eq!(events.next(), change(&id, "pending"));
    assert_eq!(events.next(), change(&id, "completed"));
    let last_id = events.last_id.clone();
    let of_consuming = consuming.add_request(&site.url("/ok/2"));
    consuming.wait_request(&of_consuming);
    let mut resumed = Events::open(&consuming.address, &last_id);
    assert_eq!(
        resumed.next(),
        change(&of_consuming, "pending"),
        "an id of one gateway is valid at the other"
    );
    assert_eq!(events.next(), change(&of_consuming, "pending"));
}
