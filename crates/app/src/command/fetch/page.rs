//! Parsed page: title, description, language, text, links and SimHash, as the crawler extracts them.

use crate::output::{Output, one_line};
use crawlway_content::{NormalUrl, Page, ParseOptions, index_text, parse_bytes, simhash::to_signed};
use crawlway_fetch::{FetchResponse, robots::AGENT};
use serde::Serialize;
use std::{collections::HashSet, io};

/// Lines of text that are printed, and characters of each.
const MAX_LINES: usize = 10;
const MAX_WIDTH: usize = 100;

/// Parsed page.
#[derive(Debug, Serialize)]
pub(super) struct ParsedPage {
    url: String,
    title: String,
    description: Option<String>,
    language: Option<String>,
    text: String,
    links: Vec<String>,
    simhash: i64,
    /// Text with its case and lines, for people.
    #[serde(skip)]
    lines: String,
}

impl ParsedPage {
    pub(super) fn parse(bytes: &[u8], content_type: Option<&str>, url: &NormalUrl) -> Self {
        let options = ParseOptions { agent: Some(AGENT.to_owned()), ..ParseOptions::default() };
        let Page { title, description, language, links, text, simhash, .. } =
            parse_bytes(bytes, content_type, url, &options);
        let mut seen = HashSet::new();
        let links = links
            .into_iter()
            .map(|link| link.url.into_string())
            .filter(|link| seen.insert(link.clone()))
            .collect();
        Self {
            url: url.as_str().to_owned(),
            title,
            description,
            language,
            text: index_text(&text),
            links,
            simhash: to_signed(simhash),
            lines: text,
        }
    }

    pub(super) fn print(&self, output: &mut Output) -> io::Result<()> {
        let none = || "-".to_owned();
        let or_none = |text: &Option<String>| text.as_deref().map_or_else(none, one_line);
        let title = if self.title.is_empty() { none() } else { one_line(&self.title) };
        output.line(&format!("title        {title}"))?;
        output.line(&format!("description  {}", or_none(&self.description)))?;
        output.line(&format!("language     {}", or_none(&self.language)))?;
        output.line(&format!("links        {}", self.links.len()))?;
        output.line(&format!("simhash      {}", self.simhash))?;
        output.line(&format!("text         {} characters", self.lines.chars().count()))?;
        let mut lines = self.lines.lines();
        for line in lines.by_ref().take(MAX_LINES) {
            output.line(&format!("  {}", shortened(line)))?;
        }
        match lines.count() {
            0 => Ok(()),
            more => output.line(&format!("  … and {more} more lines")),
        }
    }
}

/// Whether text can be extracted from a response.
pub(super) fn is_html(fetched: &FetchResponse) -> bool {
    let kind = fetched.content_type().unwrap_or("text/html");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    !fetched.body.is_empty() && (kind.starts_with("text/") || kind == "application/xhtml+xml")
}

fn shortened(line: &str) -> String {
    let mut short: String = line.chars().take(MAX_WIDTH).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    one_line(&short)
}
