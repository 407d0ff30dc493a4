//! What a site would like us to fetch: sitemaps by sitemaps.org. Bytes in, URLs out; no I/O, no clock.
//!
//! A sitemap is an XML `urlset`, an XML `sitemapindex` that names further sitemaps, a feed (RSS or Atom) or a
//! list of URLs in plain text, each as it is or compressed with gzip. Which it is, its content tells: file
//! names and content types are too often wrong.
//!
//! Sitemaps are written by strangers, so what can be read counts and the rest is reported as a [`Problem`].
//! No input makes this panic, and time and memory are bounded by the limits below. Entities that a document
//! declares itself are never expanded; a document that declares any is refused.

mod decode;
mod entries;
mod text;
mod xml;

/// How many bytes of a file count: of what was sent, and again of what it decompresses to.
pub const MAX_BYTES: usize = 50 * 1024 * 1024;

/// How many URLs of one file count.
pub const MAX_URLS: usize = 50_000;

/// How many bytes a URL may have.
pub const MAX_URL_BYTES: usize = 2048;

/// How many indexes may lead to a sitemap. Whoever follows indexes has to count, since a sitemap cannot know.
pub const MAX_DEPTH: usize = 3;

/// What could be read of a sitemap.
#[derive(Debug, Clone, PartialEq)]
pub struct Sitemap {
    /// The URLs that it names, in its order.
    pub links: Links,
    /// What was wrong with it.
    pub problems: Vec<Problem>,
}

/// The URLs that a sitemap names: trimmed and with entities resolved, but not otherwise checked or resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Links {
    /// Pages.
    Urls(Vec<Entry>),
    /// Further sitemaps.
    Index(Vec<Child>),
}

/// A page that a sitemap names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// Its URL.
    pub loc: String,
    /// When it last changed, as the sitemap has it: a W3C date in sitemaps and Atom, an RFC 822 date in RSS.
    pub lastmod: Option<String>,
    /// How often it is said to change.
    pub changefreq: Option<ChangeFrequency>,
    /// How it is said to compare with other pages of the site, from 0 to 1.
    pub priority: Option<f32>,
}

/// A sitemap that an index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its URL.
    pub loc: String,
    /// When it last changed, as the index has it.
    pub lastmod: Option<String>,
}

/// How often a page is said to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the protocol")]
pub enum ChangeFrequency {
    Always,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
    Never,
}

/// Why not all of a sitemap was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is longer than [`MAX_BYTES`], compressed or decompressed.
    #[error("the sitemap has more than {MAX_BYTES} bytes: what lies beyond was not read")]
    TooLong,
    /// The compressed file is damaged.
    #[error("the gzip data of the sitemap is broken: {reason}")]
    BrokenGzip {
        /// What the decompressor says.
        reason: String,
    },
    /// The document is not well-formed.
    #[error("the XML of the sitemap is broken at byte {at}: {reason}")]
    BrokenXml {
        /// Where, counted from its first element or declaration, as UTF-8.
        at: u64,
        /// What the parser says.
        reason: String,
    },
    /// The file names more than [`MAX_URLS`].
    #[error("the sitemap names more than {MAX_URLS} URLs: {left_out} were left out")]
    TooManyUrls {
        /// How many were not read.
        left_out: usize,
    },
    /// Some URLs are longer than [`MAX_URL_BYTES`].
    #[error("the sitemap names URLs of more than {MAX_URL_BYTES} bytes: {left_out} were left out")]
    LongUrls {
        /// How many.
        left_out: usize,
    },
    /// Some entries, or lines of a list, have no URL.
    #[error("the sitemap has entries without a URL: {left_out} were left out")]
    NoUrl {
        /// How many.
        left_out: usize,
    },
}

/// Why nothing of a sitemap was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SitemapError {
    /// It is something else, such as the page that a site shows for what it does not have.
    #[error("expected a urlset, a sitemapindex, a feed or a list of URLs, but found {found}")]
    NotASitemap {
        /// What it is.
        found: String,
    },
    /// It declares entities, which sitemaps have no use for and bombs are made of.
    #[error("the sitemap declares entities of its own: expected a document without `<!ENTITY`")]
    DeclaresEntities,
    /// It is broken before the first thing that could count.
    #[error("nothing of the sitemap could be read: {0}")]
    Unreadable(Problem),
}

impl Sitemap {
    /// Reads a sitemap. The content type, if the server sent one, tells the charset of a file that is not
    /// UTF-8, and nothing else.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, SitemapError> {
        let mut problems = Vec::new();
        let bytes = decode::decompress(bytes, &mut problems);
        let text = decode::text(&bytes, content_type);
        let document = text.trim_start();
        let result = if document.starts_with('<') {
            xml::links(document, &mut problems)
        } else {
            text::links(document, &mut problems)
        };
        match result {
            Ok(links) => Ok(Self { links, problems }),
            // What is broken looks like something else; the cause says more.
            Err(SitemapError::NotASitemap { .. }) if !problems.is_empty() => {
                Err(SitemapError::Unreadable(problems.swap_remove(0)))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is more in the file than was read.
    pub fn truncated(&self) -> bool {
        self.problems.iter().any(|problem| match problem {
            Problem::TooLong
            | Problem::BrokenGzip { .. }
            | Problem::BrokenXml { .. }
            | Problem::TooManyUrls { .. } => true,
            Problem::LongUrls { .. } | Problem::NoUrl { .. } => false,
        })
    }
}

impl ChangeFrequency {
    /// None if it is not one of the protocol's words.
    fn from_word(word: &str) -> Option<Self> {
        [
            ("always", Self::Always),
            ("hourly", Self::Hourly),
            ("daily", Self::Daily),
            ("weekly", Self::Weekly),
            ("monthly", Self::Monthly),
            ("yearly", Self::Yearly),
            ("never", Self::Never),
        ]
        .into_iter()
        .find_map(|(known, frequency)| word.eq_ignore_ascii_case(known).then_some(frequency))
    }
}
