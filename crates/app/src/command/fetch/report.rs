//! Printed result of a fetch, for people and as JSON.

use super::page::ParsedPage;
use crate::output::{Output, one_line};
use crawlway_content::NormalUrl;
use crawlway_fetch::{FetchError, FetchResponse};
use serde::Serialize;
use std::{io, time::Duration};

/// Response as JSON.
#[derive(Serialize)]
pub(super) struct FetchReport<'a> {
    asked: &'a str,
    url: &'a str,
    status: u16,
    version: String,
    address: String,
    redirects: Vec<Redirect<'a>>,
    headers: Vec<(&'a str, String)>,
    sent_bytes: usize,
    body_bytes: usize,
    timing_ms: Timing,
    page: Option<&'a ParsedPage>,
}

#[derive(Serialize)]
struct Redirect<'a> {
    url: &'a str,
    status: u16,
}

#[derive(Serialize)]
struct Timing {
    rate_limit: f64,
    lookup: f64,
    dial: f64,
    tls: f64,
    first_byte: f64,
    total: f64,
}

impl<'a> FetchReport<'a> {
    pub(super) fn new(
        asked: &'a NormalUrl,
        fetched: &'a FetchResponse,
        page: Option<&'a ParsedPage>,
    ) -> Self {
        let timing = fetched.timing;
        Self {
            asked: asked.as_str(),
            url: fetched.url.as_str(),
            status: fetched.status.as_u16(),
            version: format!("{:?}", fetched.version),
            address: fetched.address.to_string(),
            redirects: fetched
                .hops
                .iter()
                .map(|hop| Redirect { url: hop.url.as_str(), status: hop.status.as_u16() })
                .collect(),
            headers: headers(fetched).collect(),
            sent_bytes: fetched.wire_bytes,
            body_bytes: fetched.body.len(),
            timing_ms: Timing {
                rate_limit: millis(timing.rate_limit_wait),
                lookup: millis(timing.lookup),
                dial: millis(timing.dial),
                tls: millis(timing.tls),
                first_byte: millis(timing.first_byte),
                total: millis(timing.total),
            },
            page,
        }
    }
}

/// Failed fetch as JSON.
#[derive(Serialize)]
pub(super) struct FailureReport<'a> {
    error: Failure<'a>,
}

#[derive(Serialize)]
struct Failure<'a> {
    code: &'a str,
    transient: bool,
    detail: &'a str,
    url: &'a str,
    not_before: Option<String>,
}

impl<'a> From<&'a FetchError> for FailureReport<'a> {
    fn from(error: &'a FetchError) -> Self {
        Self {
            error: Failure {
                code: error.code.as_str(),
                transient: error.code.is_transient(),
                detail: &error.detail,
                url: &error.url,
                not_before: error.not_before.map(|time| time.to_iso()),
            },
        }
    }
}

/// Prints redirects, address, timing and headers for people.
pub(super) fn print(fetched: &FetchResponse, output: &mut Output) -> io::Result<()> {
    for hop in &fetched.hops {
        output.line(&format!("{} {}", hop.status.as_u16(), hop.url))?;
    }
    output.line(&format!("{} {}", fetched.status.as_u16(), fetched.url))?;
    output.line("")?;
    output.line(&format!("from         {} over {:?}", fetched.address, fetched.version))?;
    output.line(&format!("body         {} bytes, {} on the wire", fetched.body.len(), fetched.wire_bytes))?;
    let timing = fetched.timing;
    let parts = [
        ("rate limiter", timing.rate_limit_wait),
        ("DNS", timing.lookup),
        ("connect", timing.dial),
        ("TLS", timing.tls),
        ("first byte", timing.first_byte),
        ("total", timing.total),
    ];
    let parts: Vec<String> =
        parts.iter().map(|(name, time)| format!("{name} {:.1} ms", millis(*time))).collect();
    output.line(&format!("timing       {}", parts.join(", ")))?;
    output.line("headers")?;
    for (name, value) in headers(fetched) {
        output.line(&format!("  {name}: {}", one_line(&value)))?;
    }
    Ok(())
}

fn headers(fetched: &FetchResponse) -> impl Iterator<Item = (&str, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    fetched.headers.iter().map(move |(name, value)| (name.as_str(), text(value.as_bytes())))
}

/// Milliseconds, rounded to microseconds.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
