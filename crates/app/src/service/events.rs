//! Server-sent events of a gateway.

use http_body_util::BodyExt;
use hyper::body::Incoming;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    pub(crate) id: String,
    pub(crate) data: String,
}

/// Stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// The next event; `None` when the connection ends.
    pub(crate) async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(parse(&String::from_utf8_lossy(&block)));
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}

fn parse(block: &str) -> ServerEvent {
    let mut event = ServerEvent::default();
    for line in block.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => value.clone_into(&mut event.id),
            "data" => event.data.push_str(value),
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_id_and_data() {
        let event = parse("event: request\nid: 17-0\ndata: {\"id\":\"a\"}\n\n");
        assert_eq!(event, ServerEvent { id: "17-0".to_owned(), data: "{\"id\":\"a\"}".to_owned() });
        assert_eq!(parse(": open\nid: 3\n\n"), ServerEvent { id: "3".to_owned(), data: String::new() });
    }
}
