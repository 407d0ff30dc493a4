//! Scraped data: what our worker answers about a page.

use crate::search::message::cut;
use crawlway_clock::Timestamp;
use crawlway_content::{Page, ParseOptions, charset::decode, parse_bytes};
use crawlway_fetch::FetchResponse;
use crawlway_flow::StageError;
use serde::Serialize;
use std::{collections::HashSet, time::Duration};

/// Size from which on bodies are parsed on a blocking thread.
const BLOCKING_FROM_BYTES: usize = 256 << 10;
/// Memory of a page while it is parsed and its message is built, as a multiple of its size.
const PARSE_MEMORY_FACTOR: usize = 5;
/// Deferral of an item whose page finds no free memory.
const MEMORY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of links.
const MAX_LINKS: usize = 1000;

/// Data of a fetched page, as in the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScrapedData<'a> {
    url: &'a str,
    final_url: &'a str,
    status_code: u16,
    title: &'a str,
    description: Option<&'a str>,
    text: String,
    links: Vec<&'a str>,
    /// Whether the text or the links are incomplete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// JSON of at most `max_bytes` about a response to a request for this URL.
pub(super) async fn scrape(
    url: &str,
    mut response: FetchResponse,
    max_bytes: usize,
) -> Result<Vec<u8>, StageError> {
    let max = response.memory_reservation.max_page_bytes() / PARSE_MEMORY_FACTOR;
    let truncated = response.body.len() > max;
    if truncated {
        // A copy, so that the whole body is freed.
        response.body = response.body[..max].to_vec().into();
    }
    if response.memory_reservation.grow_to(response.body.len() * PARSE_MEMORY_FACTOR).await.is_err() {
        let reason = "the memory budget is used up by other pages".to_owned();
        return Err(StageError::DeferItem { until: Timestamp::now() + MEMORY_DELAY, reason });
    }
    let (url, is_small) = (url.to_owned(), response.body.len() < BLOCKING_FROM_BYTES);
    let scrape = move || to_json(&url, &response, &parse(&response), truncated, max_bytes);
    if is_small {
        return Ok(scrape());
    }
    tokio::task::spawn_blocking(scrape)
        .await
        .map_err(|error| StageError::Transient { after: None, error: format!("parsing the page: {error}") })
}

/// Page of a response: parsed HTML, other text as it is, and nothing of binary content.
fn parse(response: &FetchResponse) -> Page {
    let content_type = response.content_type();
    let kind =
        content_type.unwrap_or("text/html").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let is_markup = kind.ends_with("html") || kind.ends_with("xml");
    let is_text =
        is_markup || kind.starts_with("text/") || kind.ends_with("json") || kind == "application/javascript";
    let options = ParseOptions { without_simhash: true, ..ParseOptions::default() };
    let html: &[u8] = if is_markup { &response.body } else { b"" };
    let mut page = parse_bytes(html, content_type, &response.url, &options);
    if is_text && !is_markup {
        page.text = decode(&response.body, content_type).text.into_owned();
    }
    page
}

/// JSON with as much of the text, and then of the links, as fits.
fn to_json(url: &str, response: &FetchResponse, page: &Page, truncated: bool, max_bytes: usize) -> Vec<u8> {
    let mut seen = HashSet::new();
    let mut links: Vec<&str> =
        page.links.iter().map(|link| link.url.as_str()).filter(|link| seen.insert(*link)).collect();
    let is_long = links.len() > MAX_LINKS || page.dropped_links > 0;
    links.truncate(MAX_LINKS);
    let mut text = page.text.clone();
    let is_cut = cut(&mut text, max_bytes);
    let mut data = ScrapedData {
        url,
        final_url: response.url.as_str(),
        status_code: response.status.as_u16(),
        title: &page.title,
        description: page.description.as_deref(),
        text,
        links,
        truncated: truncated || is_cut || is_long,
    };
    loop {
        // Cannot fail: all fields are serialisable.
        let json = serde_json::to_vec(&data).unwrap_or_default();
        if json.len() <= max_bytes || (data.text.is_empty() && data.links.is_empty()) {
            return json;
        }
        data.truncated = true;
        if data.text.is_empty() {
            data.links.truncate(data.links.len() / 2);
        } else {
            // The excess and a margin, since JSON escapes make some texts longer.
            let keep = data.text.len().saturating_sub(json.len() - max_bytes).saturating_sub(1024);
            cut(&mut data.text, keep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_fetch::{MemoryBudget, Timing};
    use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
    use serde_json::{Value, json};

    fn response(content_type: &'static str, body: &str) -> FetchResponse {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        FetchResponse {
            url: "http://a.example/end".parse().unwrap(),
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
            body: body.as_bytes().to_vec().into(),
            wire_bytes: body.len(),
            hops: vec![],
            address: "127.0.0.1:80".parse().unwrap(),
            timing: Timing::default(),
            memory_reservation: MemoryBudget::default().reserve(),
        }
    }

    async fn scraped(content_type: &'static str, body: &str, max_bytes: usize) -> Value {
        let json = scrape("http://A.example", response(content_type, body), max_bytes).await.unwrap();
        assert!(json.len() <= max_bytes, "{} of {max_bytes} bytes", json.len());
        serde_json::from_slice(&json).unwrap()
    }

    #[tokio::test]
    async fn a_page_has_the_fields_of_the_contract() {
        let html = r#"<title>T</title><meta name=description content=D><p>Hello.</p><a href="/x">x</a><a href="/x">x</a>"#;
        let data = scraped("text/html", html, 10_000).await;
        let text = data["text"].as_str().unwrap().to_owned();
        assert!(text.contains("Hello."), "{text}");
        let expected = json!({
            "url": "http://A.example", "finalUrl": "http://a.example/end", "statusCode": 200, "title": "T",
            "description": "D", "text": text, "links": ["http://a.example/x"],
        });
        assert_eq!(data, expected);
        let plain = scraped("text/plain", "a <b> c", 10_000).await;
        assert_eq!((&plain["text"], &plain["description"]), (&json!("a <b> c"), &Value::Null));
        assert_eq!(scraped("image/png", "\u{1}PNG", 10_000).await["text"], "");
    }

    #[tokio::test]
    async fn a_long_page_is_cut_to_the_maximum() {
        let long = format!("<p>{}</p>", "hello\"\\ ".repeat(10_000));
        for max in [2000, 20_000] {
            let data = scraped("text/html", &long, max).await;
            assert_eq!(data["truncated"], true);
        }
        let links: String = (0..3000).map(|number| format!("<a href=/{number}>x</a> ")).collect();
        let data = scraped("text/html", &links, 5000).await;
        assert!(!data["links"].as_array().unwrap().is_empty() && data["truncated"] == true);
        assert_eq!(scraped("text/html", &links, 1 << 20).await["links"].as_array().unwrap().len(), MAX_LINKS);
    }
}
