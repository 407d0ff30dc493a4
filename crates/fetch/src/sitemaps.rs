//! The sitemaps of a site, through the fetcher: from robots.txt, indexes followed, every request through the gate.

use crate::{
    budget::Budget,
    client::Fetcher,
    error::{Code, FetchError},
    request::Request,
    sitemap::{Child, Entry, Links, MAX_BYTES, MAX_DEPTH, Sitemap, SitemapError},
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::gate::Ticket;
use std::collections::{HashSet, VecDeque};

/// How much of a site's sitemaps is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SitemapCaps {
    /// So many files, indexes included.
    pub files: usize,
    /// So many pages.
    pub pages: usize,
}

impl Default for SitemapCaps {
    fn default() -> Self {
        Self { files: 500, pages: 1_000_000 }
    }
}

/// What the sitemaps of a site name.
#[derive(Debug, Default)]
pub struct Sitemaps {
    /// The pages, each once, in the order in which they were met. They may well be of other hosts, and no
    /// robots.txt has been asked about them.
    pub pages: Vec<SitemapPage>,
    /// The files that were asked for, and how that went.
    pub files: Vec<SitemapFile>,
    /// Whether something was left out because of the caps, the depth or the size of a file.
    pub truncated: bool,
}

/// A page that a sitemap names.
#[derive(Debug, Clone, PartialEq)]
pub struct SitemapPage {
    /// Its URL.
    pub url: NormalUrl,
    /// What the sitemap says of it.
    pub entry: Entry,
}

/// A file that was asked for.
#[derive(Debug)]
pub struct SitemapFile {
    /// Its URL.
    pub url: NormalUrl,
    /// How many indexes led to it.
    pub depth: usize,
    /// How many URLs it names, or why it could not be read.
    pub read: Result<usize, SitemapFailure>,
}

/// Why a sitemap could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SitemapFailure {
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It answered with something other than a page.
    #[error("answered {0}")]
    Status(u16),
    /// What came is no sitemap.
    #[error(transparent)]
    Content(#[from] SitemapError),
}

impl SitemapFailure {
    /// Whether it may be read another time.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Fetch(error) => error.code.is_transient(),
            Self::Status(status) => matches!(status, 408 | 429 | 500..=599),
            Self::Content(_) => false,
        }
    }
}

impl Fetcher {
    /// Where the sitemaps of a site are: as its robots.txt says, else at `/sitemap.xml`.
    ///
    /// The request's terms hold, its URL says which site. When robots.txt cannot be read this fails, unless the
    /// request asks for no robots.txt; then the usual place is as good as any.
    pub async fn sitemap_roots(&self, request: &Request) -> Result<Vec<NormalUrl>, FetchError> {
        let mut budget = Budget::new(request.limits.total);
        let named = match self.rules(&request.url, request, &mut budget).await {
            Ok(rules) => rules.sitemaps().to_vec(),
            Err(error) if request.robots || is_the_gates(error.code) => return Err(error),
            Err(_) => Vec::new(),
        };
        let mut seen = HashSet::new();
        let join = |place: &String| request.url.join(place, &UrlOptions::default()).ok();
        let mut roots: Vec<NormalUrl> =
            named.iter().filter_map(join).filter(|url| seen.insert(url.as_str().to_owned())).collect();
        if roots.is_empty() {
            roots.extend(join(&"/sitemap.xml".to_owned()));
        }
        Ok(roots)
    }

    /// One sitemap, on the terms of the request, except that it may be as large as a sitemap may be.
    pub async fn sitemap(&self, request: &Request) -> Result<Sitemap, SitemapFailure> {
        let mut request = request.clone();
        request.limits.body_bytes = MAX_BYTES;
        request.limits.decoded_bytes = MAX_BYTES;
        let fetched = self.fetch(&request).await?;
        if !fetched.status.is_success() {
            return Err(SitemapFailure::Status(fetched.status.as_u16()));
        }
        Ok(Sitemap::parse(&fetched.body, fetched.content_type())?)
    }

    /// All pages that the sitemaps of a site name, breadth first, indexes followed as deep as they may be.
    ///
    /// A file that cannot be read is told among the files and holds up no other. Only the gate stops the walk:
    /// when it is not our turn and the request would rather wait elsewhere, this fails, and nothing that was read
    /// is kept. Who waits elsewhere, or does not want all pages in memory, walks file by file ([`Fetcher::sitemap_walk`]).
    pub async fn sitemaps(&self, request: &Request, caps: SitemapCaps) -> Result<Sitemaps, FetchError> {
        let mut found = Sitemaps::default();
        let mut seen = HashSet::new();
        let mut walk = self.sitemap_walk(request, caps).await?;
        while let Some(SitemapRead { file, pages }) = self.next_sitemap(&mut walk).await? {
            found.files.push(file);
            found.pages.extend(pages.into_iter().filter(|page| seen.insert(page.url.as_str().to_owned())));
        }
        found.truncated = walk.truncated;
        Ok(found)
    }

    /// Begins a walk through the sitemaps of a site.
    pub async fn sitemap_walk(
        &self,
        request: &Request,
        caps: SitemapCaps,
    ) -> Result<SitemapWalk, FetchError> {
        let roots = self.sitemap_roots(request).await?;
        Ok(SitemapWalk {
            request: request.clone(),
            caps,
            seen: roots.iter().map(|url| url.as_str().to_owned()).collect(),
            waiting: roots.into_iter().map(|url| (url, 0)).collect(),
            files: 0,
            pages: 0,
            truncated: false,
        })
    }

    /// Reads the next file of a walk; `None` at its end. When it is not our turn, this fails, and the file is still the next one.
    pub async fn next_sitemap(&self, walk: &mut SitemapWalk) -> Result<Option<SitemapRead>, FetchError> {
        let Some((url, depth)) = walk.waiting.pop_front() else { return Ok(None) };
        if walk.files >= walk.caps.files || walk.pages >= walk.caps.pages {
            walk.truncated = true;
            walk.waiting.clear();
            return Ok(None);
        }
        let mut pages = Vec::new();
        let read = match self.sitemap(&of(&walk.request, &url)).await {
            Err(SitemapFailure::Fetch(error)) if is_the_gates(error.code) => {
                walk.waiting.push_front((url, depth));
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

/// A way through the sitemaps of a site, file by file, so that no more than one is in memory.
#[derive(Debug)]
pub struct SitemapWalk {
    request: Request,
    caps: SitemapCaps,
    /// The files that were met.
    seen: HashSet<String>,
    /// Those still to be read, and how many indexes led to each.
    waiting: VecDeque<(NormalUrl, usize)>,
    files: usize,
    pages: usize,
    truncated: bool,
}

/// A file of a walk that was read, or could not be.
#[derive(Debug)]
pub struct SitemapRead {
    /// The file.
    pub file: SitemapFile,
    /// The pages that it names, in its order.
    pub pages: Vec<SitemapPage>,
}

impl SitemapWalk {
    /// The file that is read next.
    pub fn upcoming(&self) -> Option<&NormalUrl> {
        self.waiting.front().map(|(url, _)| url)
    }

    /// Passes over the file that would be read next. It counts as one.
    pub fn skip(&mut self) {
        self.files += usize::from(self.waiting.pop_front().is_some());
    }

    /// Has a file read once more, after all others.
    pub fn again(&mut self, file: SitemapFile) {
        self.files = self.files.saturating_sub(1);
        self.waiting.push_back((file.url, file.depth));
    }

    /// The pages that a file names, as far as the cap lets them in.
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

    /// Puts the files that an index names at the end of the way, and says how many it names.
    fn follow(&mut self, children: Vec<Child>, base: &NormalUrl, depth: usize) -> usize {
        let count = children.len();
        if depth >= MAX_DEPTH {
            self.truncated |= count > 0;
            return count;
        }
        // No more are remembered than may be asked for.
        let room = self.caps.files.saturating_sub(self.files + self.waiting.len());
        let mut new = unseen(children, base, &mut self.seen, room);
        self.truncated |= new.len() > room;
        new.truncate(room);
        self.waiting.extend(new.into_iter().map(|url| (url, depth + 1)));
        count
    }
}

/// The request for one file: its own ticket, and nothing known of it from before.
fn of(request: &Request, url: &NormalUrl) -> Request {
    Request {
        url: url.clone(),
        ticket: Ticket::of(&format!("{:x} {}", request.ticket.as_u128(), url.as_str())),
        group: request.group.clone().filter(|_| url.host() == request.url.host()),
        validators: Default::default(),
        ..request.clone()
    }
}

/// The children that have not been met, and one more than there is room for if there are more.
fn unseen(children: Vec<Child>, base: &NormalUrl, seen: &mut HashSet<String>, room: usize) -> Vec<NormalUrl> {
    children
        .into_iter()
        .filter_map(|child| base.join(&child.loc, &UrlOptions::default()).ok())
        .filter(|url| seen.insert(url.as_str().to_owned()))
        .take(room.saturating_add(1))
        .collect()
}

fn is_the_gates(code: Code) -> bool {
    matches!(code, Code::GateWait | Code::GateOpen | Code::GateUnavailable)
}
