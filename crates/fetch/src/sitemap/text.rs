//! Plain-text sitemaps: one URL per line.

use super::{Entry, Links, Problem, SitemapError, entries::Entries};

pub(super) fn links(document: &str, problems: &mut Vec<Problem>) -> Result<Links, SitemapError> {
    let mut entries = Entries::default();
    let text = if problems.is_empty() { document } else { complete_lines(document) };
    let lines = text.split('\n').flat_map(|line| line.split('\r'));
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let loc = if is_url(line) { line.to_owned() } else { String::new() };
        entries.add(Entry { loc, ..Entry::default() });
    }
    // Text without any URL is no sitemap.
    if !entries.has_urls() {
        let found = if document.is_empty() { "nothing" } else { "text without a URL on a line of its own" };
        return Err(SitemapError::NotASitemap { found: found.to_owned() });
    }
    Ok(Links::Urls(entries.finish(problems)))
}

/// Drops the last line of a truncated list, which would be the URL of another page.
fn complete_lines(document: &str) -> &str {
    document.rfind(['\n', '\r']).map_or("", |end| &document[..end])
}

fn is_url(line: &str) -> bool {
    let starts_with =
        |scheme: &str| line.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    (starts_with("http://") || starts_with("https://")) && !line.contains(char::is_whitespace)
}
