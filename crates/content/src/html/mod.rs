//! From HTML to a [`Page`], in one pass over the tokens and without a DOM.
//!
//! While the tokenizer runs, the outline collects sections, blocks of text, links and
//! metadata. At the end the boilerplate rules decide which blocks are the main text.
//!
//! Time and memory are linear in the input. The caps: [`MAX_INPUT_BYTES`] of input, 10,000 links
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

/// How much of a document is read, in bytes of text; what follows is ignored.
pub const MAX_INPUT_BYTES: usize = 64 << 20;

/// How a page is read.
#[derive(Debug, Clone, Default)]
pub struct ParseOptions {
    /// How links and the canonical URL are normalised.
    pub url: UrlOptions,
    /// Whether [`Page::full_text`] is wanted.
    pub full_text: bool,
    /// Leaves [`Page::simhash`] at 0, for who computes it elsewhere.
    pub without_simhash: bool,
    /// A name, besides `robots`, whose `<meta>` directives are for us, such as `crawlway`.
    pub agent: Option<String>,
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The `<title>`, empty when there is none.
    pub title: String,
    /// The meta description, or the Open Graph one.
    pub description: Option<String>,
    /// The canonical URL that the page names, if it is an acceptable one.
    pub canonical: Option<NormalUrl>,
    /// What its `<meta>` lets crawlers do.
    pub robots: Robots,
    /// The language it declares, such as `en` or `pt-BR`.
    pub language: Option<String>,
    /// Links to other pages in document order, repeated ones too. Links within the page are not
    /// among them.
    pub links: Vec<Link>,
    /// How many links were left out because there were too many.
    pub dropped_links: usize,
    /// The main text: case kept, white space collapsed, one line per block.
    pub text: String,
    /// All visible text, boilerplate included, when [`ParseOptions::full_text`] asks for it.
    pub full_text: Option<String>,
    /// The SimHash of the main text.
    pub simhash: u64,
}

/// Reads a page from text. `base` is the URL it was fetched from.
#[must_use]
pub fn parse(html: &str, base: &NormalUrl, options: &ParseOptions) -> Page {
    let html = cut(html, MAX_INPUT_BYTES);
    let mut outline = Outline::new(html.len());
    if let Some(agent) = &options.agent {
        outline.meta.agent = agent.to_ascii_lowercase().into_bytes();
    }
    let Ok(()) = Tokenizer::new_with_emitter(html, Sink::new(&mut outline)).finish();
    page(outline, base, options)
}

/// Reads a page from the bytes of a response. `content_type` is the header's value.
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

/// The longest beginning of `text` that has at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
