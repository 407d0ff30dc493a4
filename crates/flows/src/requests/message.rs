//! Messages of `crawl-requests` and `crawl-responses`: headers, key and bodies. A public contract.

use crate::body::{self, Field};
use crawlway_broker::{Defect, Message, Outgoing, QueueName, limits};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_flow::Invalid;
use crawlway_store::requests::{Answer, CrawlRequest, Email, RequestKey};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, value::RawValue};

/// JSON Schema of the body of a request.
pub const REQUEST_SCHEMA: &str = include_str!("../../schemas/crawl-requests.schema.json");
/// JSON Schema of the body of a response.
pub const RESPONSE_SCHEMA: &str = include_str!("../../schemas/crawl-responses.schema.json");

/// Maximum size of the body of a request.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Maximum size of the body of a response.
pub const MAX_RESPONSE_BYTES: usize = 16 << 20;

pub(super) const ID: &str = "id";
const EMAIL: &str = "email";
const CREATED_AT: &str = "createdAt";

/// Headers of a message: the request that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) key: RequestKey,
    /// Time of creation, as on the wire.
    pub(super) created_at: String,
}

impl Head {
    /// Reads and validates the headers, and the key, which is the id.
    pub(super) fn read(message: &Message) -> Result<Self, Invalid> {
        let header = |name| {
            if let Some(defect) = message.defects.iter().find(|defect| is_about(defect, name)) {
                return Err(Invalid(defect.to_string()));
            }
            message.headers.get(name).ok_or_else(|| Invalid(format!("header `{name}` is missing")))
        };
        let (id, email, created_at) = (header(ID)?, header(EMAIL)?, header(CREATED_AT)?);
        if id.is_empty() || id.len() > limits::MAX_ID_BYTES || id.chars().any(char::is_control) {
            let max = limits::MAX_ID_BYTES;
            return Err(Invalid(format!(
                "header `{ID}`: expected 1 to {max} bytes without control characters"
            )));
        }
        Email::check(email).map_err(|error| Invalid(format!("header `{EMAIL}`: {error}")))?;
        if Timestamp::from_iso(created_at).is_none() {
            return Err(Invalid(format!(
                "header `{CREATED_AT}`: expected ISO 8601 such as `2026-11-15T09:30:00.000Z`"
            )));
        }
        if message.defects.contains(&Defect::NullKey) {
            return Err(Invalid(Defect::NullKey.to_string()));
        }
        if message.defects.contains(&Defect::BinaryKey) || message.key.as_ref().is_some_and(|key| key != id) {
            return Err(Invalid(format!("the key differs from header `{ID}`")));
        }
        Ok(Self { key: RequestKey::new(email, id), created_at: created_at.clone() })
    }

    /// Headers of an invalid message, if its request can be answered: the id and the e-mail address are readable.
    pub(super) fn answerable(message: &Message) -> Option<Self> {
        let mut readable = message.clone();
        readable.key = None;
        let is_of_key = |defect: &Defect| matches!(defect, Defect::BinaryKey | Defect::NullKey);
        readable.defects.retain(|defect| !is_of_key(defect) && !is_about(defect, CREATED_AT));
        let created_at = readable.headers.get(CREATED_AT).and_then(|text| Timestamp::from_iso(text));
        if created_at.is_none() {
            readable.headers.insert(CREATED_AT.to_owned(), message.published_at.to_iso());
        }
        Self::read(&readable).ok()
    }

    /// A message about this request.
    fn outgoing(&self, queue: &QueueName, body: Vec<u8>) -> Outgoing {
        let RequestKey { email, id } = &self.key;
        Outgoing::to_queue(queue, body)
            .id(&**id)
            .key(id)
            .header(ID, id)
            .header(EMAIL, email)
            .header(CREATED_AT, &*self.created_at)
    }

    /// Message with a result, which is JSON.
    pub(super) fn completed(&self, queue: &QueueName, scraped_data: &[u8]) -> Outgoing {
        let body = [br#"{"success":true,"scrapedData":"#, scraped_data, b"}"].concat();
        self.outgoing(queue, body)
    }

    /// Message with an error.
    pub(super) fn failed(&self, queue: &QueueName, error: &str) -> Outgoing {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Failed<'a> {
            success: bool,
            error_message: &'a str,
        }
        // Cannot fail: all fields are serialisable.
        let body = serde_json::to_vec(&Failed { success: false, error_message: error }).unwrap_or_default();
        self.outgoing(queue, body)
    }

    /// Answer with an error, for the store.
    pub(super) fn error_answer(&self, error: &str) -> Answer {
        Answer { key: self.key.clone(), created_at: self.created_at.clone(), result: Err(error.to_owned()) }
    }
}

fn is_about(defect: &Defect, header: &str) -> bool {
    match defect {
        Defect::DuplicateHeader(name) | Defect::NullHeader(name) | Defect::BinaryHeader(name) => {
            name == header
        }
        Defect::BinaryKey | Defect::NullKey | Defect::NullBody => false,
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestBody {
    url: String,
}

/// Message of a new request.
pub(super) fn request_message(queue: &QueueName, request: &CrawlRequest) -> Outgoing {
    let head = Head { key: request.key(), created_at: request.created_at.clone() };
    // Cannot fail: all fields are serialisable.
    let body = serde_json::to_vec(&RequestBody { url: request.url.clone() }).unwrap_or_default();
    head.outgoing(queue, body)
}

/// Body of a message, which must have one.
pub(super) fn body_of(message: &Message) -> Result<&[u8], Invalid> {
    if message.defects.contains(&Defect::NullBody) {
        return Err(Invalid(Defect::NullBody.to_string()));
    }
    Ok(&message.body)
}

/// Reads the body of a request: the URL as written and in its normal form.
pub(super) fn read_request(body: &[u8]) -> Result<(String, NormalUrl), Invalid> {
    const FIELDS: [Field; 1] = [("/url", true, Value::is_string, "a text")];
    let RequestBody { url } = body::read(body, MAX_REQUEST_BYTES, &FIELDS)?;
    let normal = normalise(&url, &UrlOptions::default())
        .map_err(|error| Invalid(format!("`url` is not one that can be requested: {error}")))?;
    Ok((url, normal))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    success: bool,
    #[serde(default, deserialize_with = "some")]
    scraped_data: Option<Box<RawValue>>,
    #[serde(default)]
    error_message: Option<String>,
}

/// A value that is there, `null` included.
fn some<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

/// Reads the body of a response.
pub(super) fn read_response(head: &Head, body: &[u8]) -> Result<Answer, Invalid> {
    const FIELDS: [Field; 2] = [
        ("/success", true, Value::is_boolean, "true or false"),
        ("/errorMessage", false, Value::is_string, "a text"),
    ];
    let ResponseBody { success, scraped_data, error_message } =
        body::read(body, MAX_RESPONSE_BYTES, &FIELDS)?;
    let result = match (success, scraped_data, error_message) {
        (true, Some(data), _) => Ok(data),
        (true, None, _) => return Err(Invalid("`scrapedData` is missing; expected any JSON".to_owned())),
        (false, _, Some(error)) if !error.is_empty() => Err(error),
        (false, ..) => return Err(Invalid("`errorMessage` is missing or empty; expected a text".to_owned())),
    };
    Ok(Answer { key: head.key.clone(), created_at: head.created_at.clone(), result })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::{crawl_requests, crawl_responses};
    use crawlway_broker::{Headers, MessageId};

    const UUID: &str = "38e9351d-ab05-428b-a6ec-ddd100678807";

    fn message(headers: &[(&str, &str)], key: Option<&str>) -> Message {
        Message {
            id: MessageId::random(),
            key: key.map(str::to_owned),
            group: None,
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<Headers>(),
            body: Vec::new().into(),
            published_at: Timestamp::from_millis(1_700_000_000_000),
            defects: vec![],
        }
    }

    const VALID: [(&str, &str); 3] =
        [("id", UUID), ("email", "Lidor@gmail.com"), ("createdAt", "2026-11-15T09:30:00Z")];

    #[test]
    fn messages_are_those_of_the_contract() {
        let key = RequestKey::new("lidor@gmail.com", UUID);
        let request = CrawlRequest::pending(key, "https://example.com", "2026-11-15T09:30:00.000Z");
        let sent = request_message(&crawl_requests(), &request);
        assert_eq!(sent.body, r#"{"url":"https://example.com"}"#.as_bytes());
        assert_eq!((sent.key.as_deref(), sent.id.as_str()), (Some(UUID), UUID));
        let headers: Vec<(&str, &str)> =
            sent.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            headers,
            [("createdAt", "2026-11-15T09:30:00.000Z"), ("email", "lidor@gmail.com"), ("id", UUID)]
        );
        let head = Head::read(&message(&headers, Some(UUID))).unwrap();
        assert_eq!(
            head.completed(&crawl_responses(), b"[1]").body,
            r#"{"success":true,"scrapedData":[1]}"#.as_bytes()
        );
        let failed = head.failed(&crawl_responses(), "Request timed out");
        assert_eq!(failed.body, r#"{"success":false,"errorMessage":"Request timed out"}"#.as_bytes());
        assert_eq!((failed.headers, failed.key), (sent.headers, sent.key));
    }

    #[test]
    fn headers_are_validated_and_kept_verbatim() {
        let read = Head::read(&message(&VALID, Some(UUID))).unwrap();
        assert_eq!(read.key, RequestKey::new("Lidor@gmail.com", UUID));
        assert_eq!(read.created_at, "2026-11-15T09:30:00Z");
        assert!(Head::read(&message(&VALID, None)).is_ok(), "a broker without keys");
        let with = |name: &str, value: &'static str| {
            VALID.map(|(known, old)| (known, if known == name { value } else { old }))
        };
        let long = "x".repeat(129);
        let long: &'static str = Box::leak(long.into_boxed_str());
        for (message, reason, answerable) in [
            (message(&VALID, Some("other")), "the key differs from header `id`", true),
            (message(&VALID[..2], Some(UUID)), "header `createdAt` is missing", true),
            (message(&VALID[1..], Some(UUID)), "header `id` is missing", false),
            (message(&with("createdAt", "yesterday"), None), "header `createdAt`: expected ISO 8601", true),
            (message(&with("email", "no-at-sign"), None), "header `email`: expected an e-mail", false),
            (message(&with("email", "a\u{7}@b.example"), None), "control characters", false),
            (message(&with("id", ""), None), "header `id`: expected 1 to 128 bytes", false),
            (message(&with("id", long), None), "header `id`: expected 1 to 128 bytes", false),
            (
                Message {
                    defects: vec![Defect::DuplicateHeader("email".to_owned())],
                    ..message(&VALID, None)
                },
                "header `email` occurs more than once",
                false,
            ),
            (
                Message {
                    defects: vec![Defect::NullHeader("createdAt".to_owned())],
                    ..message(&VALID, None)
                },
                "header `createdAt` has no value",
                true,
            ),
            (Message { defects: vec![Defect::BinaryKey], ..message(&VALID, None) }, "the key differs", true),
            (Message { defects: vec![Defect::NullKey], ..message(&VALID, None) }, "the key is null", true),
        ] {
            let error = Head::read(&message).unwrap_err().to_string();
            assert!(error.contains(reason), "expected `{reason}` in: {error}");
            assert_eq!(Head::answerable(&message).is_some(), answerable, "{error}");
        }
        let other = Defect::DuplicateHeader("traceparent".to_owned());
        assert!(
            Head::read(&Message { defects: vec![other], ..message(&VALID, None) }).is_ok(),
            "of another header"
        );
    }

    #[test]
    fn bodies_are_validated() {
        assert_eq!(
            read_request(br#" { "url" : "HTTP://Example.com" } "#).unwrap().1.as_str(),
            "http://example.com/"
        );
        for (body, reason) in [
            (&br#"{"url":"https://a.example/","depth":2}"#[..], "unknown field `depth`"),
            (br#"{}"#, "`url` is missing; expected a text"),
            (br#"{"url":7}"#, "`url` is 7; expected a text"),
            (br#"["https://a.example/"]"#, "is a list; expected an object"),
            (br#"{"url":"ftp://a.example/"}"#, "`url` is not one that can be requested"),
            (b"https://a.example/", "not JSON"),
            (&[0xff, 0xfe], "not UTF-8"),
            (&vec![b' '; MAX_REQUEST_BYTES + 1], "the limit is 65536"),
        ] {
            let error = read_request(body).unwrap_err().to_string();
            assert!(error.contains(reason), "expected `{reason}` in: {error}");
        }
        let head = Head::read(&message(&VALID, Some(UUID))).unwrap();
        let read = |body: &str| read_response(&head, body.as_bytes());
        for data in ["null", r#""text""#, r#"{"z":1e400,"a":[ ]}"#, "17"] {
            let answer = read(&format!(r#"{{"success":true,"scrapedData":{data},"more":1}}"#)).unwrap();
            assert_eq!(answer.result.unwrap().get(), data);
        }
        let failed =
            read(r#"{"success":false,"errorMessage":"Request timed out","scrapedData":null}"#).unwrap();
        assert_eq!(failed.result.unwrap_err(), "Request timed out");
        for (body, reason) in [
            (r#"{"scrapedData":1}"#, "`success` is missing; expected true or false"),
            (r#"{"success":"yes","scrapedData":1}"#, "`success` is \"yes\""),
            (r#"{"success":true}"#, "`scrapedData` is missing"),
            (r#"{"success":false}"#, "`errorMessage` is missing"),
            (r#"{"success":false,"errorMessage":""}"#, "`errorMessage` is missing or empty"),
            (r#"{"success":false,"errorMessage":[]}"#, "`errorMessage` is a list; expected a text"),
            ("not JSON", "not JSON"),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(reason), "expected `{reason}` in: {error}");
        }
    }

    #[test]
    fn the_schemas_accept_what_is_written() {
        let check = |schema: &str, body: &[u8]| {
            let schema: Value = serde_json::from_str(schema).unwrap();
            jsonschema::validator_for(&schema).unwrap().is_valid(&serde_json::from_slice(body).unwrap())
        };
        let head = Head::read(&message(&VALID, Some(UUID))).unwrap();
        assert!(check(RESPONSE_SCHEMA, &head.completed(&crawl_responses(), b"null").body));
        assert!(check(RESPONSE_SCHEMA, &head.failed(&crawl_responses(), "late").body));
        assert!(
            !check(RESPONSE_SCHEMA, br#"{"success":true}"#)
                && !check(RESPONSE_SCHEMA, br#"{"success":false}"#)
        );
        assert!(check(REQUEST_SCHEMA, br#"{"url":"https://a.example/"}"#));
        assert!(!check(REQUEST_SCHEMA, br#"{"url":"https://a.example/","depth":2}"#));
    }
}
