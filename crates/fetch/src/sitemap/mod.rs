//! Sitemap parser by sitemaps.org, without I/O and clock.
//!
//! A sitemap is an XML `urlset`, an XML `sitemapindex` that names further sitemaps, a feed (RSS or Atom) or a
//! list of URLs in plain text, optionally compressed with gzip. The format is detected from the content, since file
//! names and content types are often wrong.
//!
//! Whatever is readable counts, and the rest is reported as a [`Problem`]. No input causes a panic, and the limits
//! below bound time and memory. A document that declares entities is rejected.

mod decode;
mod entries;
mod text;
mod xml;

/// Maximum size of a file, both compressed and decompressed; the rest is ignored.
pub const MAX_BYTES: usize = 50 * 1024 * 1024;

/// Maximum number of URLs in one file.
pub const MAX_URLS: usize = 50_000;

/// Maximum size of a URL in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Maximum depth of nested indexes; the caller counts it.
pub const MAX_DEPTH: usize = 3;

/// Parsed sitemap.
#[derive(Debug, Clone, PartialEq)]
pub struct Sitemap {
    /// Listed URLs, in order.
    pub links: Links,
    /// Problems of the file.
    pub problems: Vec<Problem>,
}

/// URLs of a sitemap, trimmed and with entities resolved, but not validated and possibly relative.
#[derive(Debug, Clone, PartialEq)]
pub enum Links {
    /// Pages.
    Urls(Vec<Entry>),
    /// Further sitemaps.
    Index(Vec<Child>),
}

/// Page in a sitemap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// URL.
    pub loc: String,
    /// Date of the last change, verbatim: a W3C date in sitemaps and Atom, an RFC 822 date in RSS.
    pub lastmod: Option<String>,
    /// Change frequency.
    pub changefreq: Option<ChangeFrequency>,
    /// Priority among the pages of the site, from 0 to 1.
    pub priority: Option<f32>,
}

/// Sitemap in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// URL.
    pub loc: String,
    /// Date of the last change, verbatim.
    pub lastmod: Option<String>,
}

/// Change frequency of a page.
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

/// Reason why a part of a sitemap was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is longer than [`MAX_BYTES`], compressed or decompressed.
    #[error("the sitemap has more than {MAX_BYTES} bytes: the rest was not read")]
    TooLong,
    /// The compressed file is damaged.
    #[error("the gzip data of the sitemap is broken: {reason}")]
    BrokenGzip {
        /// Error of the decompressor.
        reason: String,
    },
    /// The document is not well-formed.
    #[error("the XML of the sitemap is broken at byte {at}: {reason}")]
    BrokenXml {
        /// Position in bytes of UTF-8, from the first element or declaration.
        at: u64,
        /// Error of the parser.
        reason: String,
    },
    /// The file has more than [`MAX_URLS`] URLs.
    #[error("the sitemap has more than {MAX_URLS} URLs: {left_out} skipped")]
    TooManyUrls {
        /// Number of skipped URLs.
        left_out: usize,
    },
    /// The file has URLs longer than [`MAX_URL_BYTES`].
    #[error("the sitemap has URLs of more than {MAX_URL_BYTES} bytes: {left_out} skipped")]
    LongUrls {
        /// Number of skipped entries.
        left_out: usize,
    },
    /// The file has entries or lines without a URL.
    #[error("the sitemap has entries without a URL: {left_out} skipped")]
    NoUrl {
        /// Number of skipped entries.
        left_out: usize,
    },
}

/// Reason why a sitemap was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SitemapError {
    /// The file is something else, such as an error page.
    #[error("expected a urlset, a sitemapindex, a feed or a list of URLs, but found {found}")]
    NotASitemap {
        /// Detected content.
        found: String,
    },
    /// The document declares entities, which sitemaps do not need and entity bombs do.
    #[error("the sitemap declares entities of its own: expected a document without `<!ENTITY`")]
    DeclaresEntities,
    /// The file is broken before its first URL.
    #[error("nothing of the sitemap could be read: {0}")]
    Unreadable(Problem),
}

impl Sitemap {
    /// Parses a sitemap. The content type only gives the charset of a file that is not UTF-8.
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
            // A broken file looks like something else; the cause is the better error.
            Err(SitemapError::NotASitemap { .. }) if !problems.is_empty() => {
                Err(SitemapError::Unreadable(problems.swap_remove(0)))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the end of the file was not read.
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
    /// Parses a word of the protocol.
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
        .find_map(|(text, frequency)| word.eq_ignore_ascii_case(text).then_some(frequency))
    }
}
