//! Sitemap discovery: from robots.txt through sitemap indexes to pages, every request through the rate limiter.

use crate::{
    budget::TimeBudget,
    client::Fetcher,
    error::{FetchCode, FetchError},
    request::Request,
    sitemap::{Child, Entry, Links, MAX_BYTES, MAX_DEPTH, Sitemap, SitemapError},
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::rate_limiter::Ticket;
use std::collections::{HashSet, VecDeque};

/// Limits on the sitemaps of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SitemapLimits {
    /// Maximum number of files, indexes included.
    pub files: usize,
    /// Maximum number of pages.
    pub pages: usize,
}

impl Default for SitemapLimits {
    fn default() -> Self {
        Self { files: 500, pages: 1_000_000 }
    }
}

/// Pages and files of the sitemaps of a site.
#[derive(Debug, Default)]
pub struct Sitemaps {
    /// Pages without duplicates, in order of discovery. They may belong to other hosts, and are not checked against
    /// robots.txt.
    pub pages: Vec<SitemapPage>,
    /// Requested files with their results.
    pub files: Vec<SitemapFile>,
    /// Whether a limit on files, pages, depth or file size was reached.
    pub truncated: bool,
}

/// Page listed in a sitemap.
#[derive(Debug, Clone, PartialEq)]
pub struct SitemapPage {
    /// Normalised URL.
    pub url: NormalUrl,
    /// Entry in the sitemap.
    pub entry: Entry,
}

/// Requested sitemap file.
#[derive(Debug)]
pub struct SitemapFile {
    /// URL of the file.
    pub url: NormalUrl,
    /// Number of indexes above it.
    pub depth: usize,
    /// Number of listed URLs, or the error.
    pub read: Result<usize, SitemapFileError>,
}

/// Error of one sitemap file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SitemapFileError {
    /// The fetch failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The status is not 2xx.
    #[error("status {0}")]
    Status(u16),
    /// The content is no sitemap.
    #[error(transparent)]
    Content(#[from] SitemapError),
}

impl SitemapFileError {
    /// Whether a retry can succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Fetch(error) => error.code.is_transient(),
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            Self::Content(_) => false,
        }
    }
}

impl Fetcher {
    /// URLs of the root sitemaps of the request's site: those in robots.txt, otherwise `/sitemap.xml`.
    ///
    /// Fails if robots.txt cannot be read, unless the request does not obey robots.txt.
    pub async fn sitemap_roots(&self, request: &Request) -> Result<Vec<NormalUrl>, FetchError> {
        let mut budget = TimeBudget::new(request.limits.total);
        let listed = match self.rules(&request.url, request, &mut budget).await {
            Ok(rules) => rules.sitemaps().to_vec(),
            Err(error) if request.obey_robots || is_rate_limit(error.code) => return Err(error),
            Err(_) => Vec::new(),
        };
        let mut seen = HashSet::new();
        let join = |place: &String| request.url.join(place, &UrlOptions::default()).ok();
        let mut roots: Vec<NormalUrl> =
            listed.iter().filter_map(join).filter(|url| seen.insert(url.as_str().to_owned())).collect();
        if roots.is_empty() {
            roots.extend(join(&"/sitemap.xml".to_owned()));
        }
        Ok(roots)
    }

    /// Fetches and parses one sitemap; its size limit is the one of the sitemap protocol.
    pub async fn sitemap(&self, request: &Request) -> Result<Sitemap, SitemapFileError> {
        let mut request = request.clone();
        request.limits.body_bytes = MAX_BYTES;
        request.limits.decoded_bytes = MAX_BYTES;
        let fetched = self.fetch(&request).await?;
        if !fetched.status.is_success() {
            return Err(SitemapFileError::Status(fetched.status.as_u16()));
        }
        Ok(Sitemap::parse(&fetched.body, fetched.content_type())?)
    }

    /// All pages in the sitemaps of a site, breadth first, up to the maximum depth of indexes.
    ///
    /// An unreadable file is reported in its place and stops no other. A rate limit with [`OnRateLimit::Defer`] fails the whole
    /// call; [`Fetcher::sitemap_walk`] goes file by file instead, and keeps only one file in memory.
    ///
    /// [`OnRateLimit::Defer`]: crate::OnRateLimit::Defer
    pub async fn sitemaps(&self, request: &Request, caps: SitemapLimits) -> Result<Sitemaps, FetchError> {
        let mut all = Sitemaps::default();
        let mut seen = HashSet::new();
        let mut walk = self.sitemap_walk(request, caps).await?;
        while let Some(SitemapRead { file, pages }) = self.next_sitemap(&mut walk).await? {
            all.files.push(file);
            all.pages.extend(pages.into_iter().filter(|page| seen.insert(page.url.as_str().to_owned())));
        }
        all.truncated = walk.truncated;
        Ok(all)
    }

    /// Starts a walk through the sitemaps of a site.
    pub async fn sitemap_walk(
        &self,
        request: &Request,
        caps: SitemapLimits,
    ) -> Result<SitemapWalk, FetchError> {
        let roots = self.sitemap_roots(request).await?;
        Ok(SitemapWalk {
            request: request.clone(),
            caps,
            seen: roots.iter().map(|url| url.as_str().to_owned()).collect(),
            pending: roots.into_iter().map(|url| (url, 0)).collect(),
            files: 0,
            pages: 0,
            truncated: false,
        })
    }

    /// Reads the next file of a walk; `None` at its end. A rate limit fails the call, and the file stays the next one.
    pub async fn next_sitemap(&self, walk: &mut SitemapWalk) -> Result<Option<SitemapRead>, FetchError> {
        let Some((url, depth)) = walk.pending.pop_front() else { return Ok(None) };
        if walk.files >= walk.caps.files || walk.pages >= walk.caps.pages {
            walk.truncated = true;
            walk.pending.clear();
            return Ok(None);
        }
        let mut pages = Vec::new();
        let read = match self.sitemap(&file_request(&walk.request, &url)).await {
            Err(SitemapFileError::Fetch(error)) if is_rate_limit(error.code) => {
                walk.pending.push_front((url, depth));
                return Err(error);
            }
            Err(failure) => Err(failure),
            Ok(sitemap) => {
                walk.truncated |= sitemap.truncated();
                match sitemap.links {
                    Links::Urls(entries) => {
                        let count = entries.len();
                        pages = walk.pages_of(entries, &url);
                        Ok(count)
                    }
                    Links::Index(children) => Ok(walk.follow(children, &url, depth)),
                }
            }
        };
        walk.files += 1;
        Ok(Some(SitemapRead { file: SitemapFile { url, depth, read }, pages }))
    }
}

/// Walk through the sitemaps of a site, file by file, so that at most one is in memory.
#[derive(Debug)]
pub struct SitemapWalk {
    request: Request,
    caps: SitemapLimits,
    /// URLs of all discovered files.
    seen: HashSet<String>,
    /// Files to read, with their depth.
    pending: VecDeque<(NormalUrl, usize)>,
    files: usize,
    pages: usize,
    truncated: bool,
}

/// Result of one file of a walk.
#[derive(Debug)]
pub struct SitemapRead {
    /// File with its result.
    pub file: SitemapFile,
    /// Pages of the file, in its order.
    pub pages: Vec<SitemapPage>,
}

impl SitemapWalk {
    /// URL of the next file.
    pub fn next_url(&self) -> Option<&NormalUrl> {
        self.pending.front().map(|(url, _)| url)
    }

    /// Skips the next file, which still counts towards the limit.
    pub fn skip(&mut self) {
        self.files += usize::from(self.pending.pop_front().is_some());
    }

    /// Queues a file for another read, after all others.
    pub fn read_again(&mut self, file: SitemapFile) {
        self.files = self.files.saturating_sub(1);
        self.pending.push_back((file.url, file.depth));
    }

    /// Pages of a file, up to the limit of pages.
    fn pages_of(&mut self, entries: Vec<Entry>, base: &NormalUrl) -> Vec<SitemapPage> {
        let mut pages = Vec::new();
        for entry in entries {
            let Ok(url) = base.join(&entry.loc, &UrlOptions::default()) else { continue };
            if self.pages >= self.caps.pages {
                self.truncated = true;
                break;
            }
            self.pages += 1;
            pages.push(SitemapPage { url, entry });
        }
        pages
    }

    /// Queues the files of an index, and returns how many it lists.
    fn follow(&mut self, children: Vec<Child>, base: &NormalUrl, depth: usize) -> usize {
        let count = children.len();
        if depth >= MAX_DEPTH {
            self.truncated |= count > 0;
            return count;
        }
        // Files beyond the limit are not queued.
        let room = self.caps.files.saturating_sub(self.files + self.pending.len());
        let mut new = unseen(children, base, &mut self.seen, room);
        self.truncated |= new.len() > room;
        new.truncate(room);
        self.pending.extend(new.into_iter().map(|url| (url, depth + 1)));
        count
    }
}

/// Request for one file, with a ticket of its own and without validators.
fn file_request(request: &Request, url: &NormalUrl) -> Request {
    Request {
        url: url.clone(),
        ticket: Ticket::of(&format!("{:x} {}", request.ticket.as_u128(), url.as_str())),
        group: request.group.clone().filter(|_| url.host() == request.url.host()),
        validators: Default::default(),
        ..request.clone()
    }
}

/// New files of an index, up to one more than there is room for.
fn unseen(children: Vec<Child>, base: &NormalUrl, seen: &mut HashSet<String>, room: usize) -> Vec<NormalUrl> {
    children
        .into_iter()
        .filter_map(|child| base.join(&child.loc, &UrlOptions::default()).ok())
        .filter(|url| seen.insert(url.as_str().to_owned()))
        .take(room.saturating_add(1))
        .collect()
}

fn is_rate_limit(code: FetchCode) -> bool {
    matches!(code, FetchCode::RateLimited | FetchCode::BreakerOpen | FetchCode::RateLimiterUnavailable)
}
