//! Links: collected while parsing, then resolved and normalised.

use super::text;
use crate::url::{Joiner, NormalUrl, UrlOptions};

/// Maximum size of an anchor text in bytes.
const MAX_ANCHOR_BYTES: usize = 512;

/// Values of `rel` for crawlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rel {
    /// `nofollow`.
    pub nofollow: bool,
    /// User-generated content.
    pub ugc: bool,
    /// Paid link.
    pub sponsored: bool,
    /// The next page of a series.
    pub next: bool,
    /// The previous page of a series.
    pub prev: bool,
}

impl Rel {
    pub(crate) fn from_attribute(value: &[u8]) -> Self {
        let mut rel = Self::default();
        for word in value.split(u8::is_ascii_whitespace) {
            match word.to_ascii_lowercase().as_slice() {
                b"nofollow" => rel.nofollow = true,
                b"ugc" => rel.ugc = true,
                b"sponsored" => rel.sponsored = true,
                b"next" => rel.next = true,
                b"prev" | b"previous" => rel.prev = true,
                _ => {}
            }
        }
        rel
    }
}

/// Link to another page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Target.
    pub url: NormalUrl,
    /// Values of `rel`.
    pub rel: Rel,
    /// Anchor text with collapsed white space, at most 512 bytes.
    pub text: String,
}

/// Link before resolution: ranges in the outline's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawLink {
    pub href: (u32, u32),
    pub rel: Rel,
    pub text: (u32, u32),
}

/// Resolves links against `base`; invalid URLs (`mailto:`, `javascript:`, …) are skipped.
pub(crate) fn resolve(
    raw: &[RawLink],
    hrefs: &[u8],
    page_text: &[u8],
    base: &NormalUrl,
    options: &UrlOptions,
) -> Vec<Link> {
    let mut joiner = Joiner::new(base);
    let mut links = Vec::with_capacity(raw.len());
    for link in raw {
        let href = &hrefs[link.href.0 as usize..link.href.1 as usize];
        let Ok(href) = std::str::from_utf8(href) else { continue };
        let Ok(url) = joiner.join(href, options) else { continue };
        links.push(Link { url, rel: link.rel, text: anchor_text(page_text, link.text) });
    }
    links
}

fn anchor_text(page_text: &[u8], (start, end): (u32, u32)) -> String {
    let text = page_text.get(start as usize..end as usize).unwrap_or_default();
    let mut anchor = text::collapsed(&text[..text.len().min(MAX_ANCHOR_BYTES)]);
    // A character truncated at the limit.
    while anchor.ends_with('\u{fffd}') && text.len() > MAX_ANCHOR_BYTES {
        anchor.pop();
    }
    anchor
}
