//! HTML parser: main-content extraction in one pass over the tokens, without a DOM.
//!
//! The outline collects sections, blocks of text, links and metadata from the tokenizer. Boilerplate removal then selects
//! the blocks of the main text.
//!
//! Time and memory are linear in the input. Limits: [`MAX_INPUT_BYTES`] of input, 10,000 links
//! ([`Page::dropped_links`] counts the rest), 256 levels of nesting (deeper elements count as
//! their ancestor), URLs of [`MAX_URL_BYTES`](crate::url::MAX_URL_BYTES), 8 KiB of a meta description,
//! 4 KiB of a title.

mod attributes;
mod boilerplate;
mod hints;
mod links;
mod meta;
mod outline;
mod sink;
mod tag;
mod text;

use html5gum::Tokenizer;

pub use links::{Link, Rel};
pub use meta::Robots;
pub use text::index_text;

use crate::charset::decode;
use crate::simhash::simhash;
use crate::url::{NormalUrl, UrlOptions};
use outline::Outline;
use sink::Sink;

/// Maximum size of a document in bytes of text; the rest is ignored.
pub const MAX_INPUT_BYTES: usize = 64 << 20;

/// Options of the parser.
#[derive(Debug, Clone, Default)]
pub struct ParseOptions {
    /// URL normalisation of links and the canonical URL.
    pub url: UrlOptions,
    /// Whether to fill [`Page::full_text`].
    pub full_text: bool,
    /// Whether to leave [`Page::simhash`] at 0.
    pub without_simhash: bool,
    /// Product token whose `<meta>` directives apply besides `robots`, such as `crawlway`.
    pub agent: Option<String>,
}

/// Parsed page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// `<title>`; empty if there is none.
    pub title: String,
    /// Meta description, otherwise the Open Graph one.
    pub description: Option<String>,
    /// Canonical URL, if valid.
    pub canonical: Option<NormalUrl>,
    /// Robots directives of its `<meta>`.
    pub robots: Robots,
    /// Declared language, such as `en` or `pt-BR`.
    pub language: Option<String>,
    /// Links to other pages in document order, with duplicates, without fragment-only links.
    pub links: Vec<Link>,
    /// Number of links beyond the limit.
    pub dropped_links: usize,
    /// Main text with collapsed white space, one line per block.
    pub text: String,
    /// All visible text with boilerplate, if [`ParseOptions::full_text`] is set.
    pub full_text: Option<String>,
    /// SimHash of the main text.
    pub simhash: u64,
}

/// Parses a page. `base` is the URL it was fetched from.
#[must_use]
pub fn parse(html: &str, base: &NormalUrl, options: &ParseOptions) -> Page {
    let html = &html[..html.floor_char_boundary(MAX_INPUT_BYTES)];
    let mut outline = Outline::new(html.len());
    if let Some(agent) = &options.agent {
        outline.meta.agent = agent.to_ascii_lowercase().into_bytes();
    }
    let Ok(()) = Tokenizer::new_with_emitter(html, Sink::new(&mut outline)).finish();
    page(outline, base, options)
}

/// Parses the bytes of a response. `content_type` is the value of the header.
#[must_use]
pub fn parse_bytes(
    bytes: &[u8],
    content_type: Option<&str>,
    base: &NormalUrl,
    options: &ParseOptions,
) -> Page {
    parse(&decode(bytes, content_type).text, base, options)
}

fn page(mut outline: Outline, base: &NormalUrl, options: &ParseOptions) -> Page {
    let own_base = outline.meta.base.take().and_then(|href| base.join(&href, &UrlOptions::default()).ok());
    let base = own_base.as_ref().unwrap_or(base);
    let title = outline.meta.title();
    let text = boilerplate::main_text(&outline, &title);
    Page {
        description: outline.meta.description(),
        canonical: outline.meta.canonical.as_deref().and_then(|href| base.join(href, &options.url).ok()),
        robots: outline.meta.robots,
        language: outline.meta.language(),
        links: links::resolve(&outline.links, &outline.hrefs, &outline.text, base, &options.url),
        dropped_links: outline.dropped_links,
        simhash: if options.without_simhash { 0 } else { simhash(&text) },
        full_text: options.full_text.then(|| boilerplate::visible_text(&outline)),
        title,
        text,
    }
}
