//! Reading of stored pages: one by URL, or a list by host, query or crawl. Shared by the routes and the command line.

use crate::{
    dto::{PageList, StoredPage},
    service::{Error, check_limit, normal_url},
};
use crawlway_store::{
    CrawlId, Frontier, IndexedPage, PageIndex, Trails,
    frontier::{Entry, EntryState},
    pages::{Query, SearchError},
};

/// Maximum number of pages in one list.
pub const MAX_LISTED: usize = 1_000;
/// Maximum number of pages in one list with texts.
pub const MAX_WITH_TEXT: usize = 100;

/// Number of pages per read of the index.
const BATCH: usize = 20;
/// Size of the texts after which a list ends, so that a few large pages do not exhaust memory.
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Number of scanned pages after which a list of a crawl ends, so that a small crawl in a large index does not time out.
const MAX_SCANNED: usize = 2_000;

/// Filter and pagination of a list of stored pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Host; includes its subdomains.
    pub host: Option<String>,
    /// Search query.
    pub query: Option<String>,
    /// Name of a crawl.
    pub crawl: Option<String>,
    /// Pagination cursor: `next` of the previous list.
    pub cursor: Option<String>,
    /// Maximum number of pages.
    pub limit: usize,
    /// Whether the list contains the texts.
    pub with_text: bool,
}

impl PageQuery {
    /// Upper bound of `limit`.
    fn max_limit(&self) -> usize {
        if self.with_text { MAX_WITH_TEXT } else { MAX_LISTED }
    }

    /// Query for host and search query together; `None` for all pages.
    fn filter(&self) -> Result<Option<Query>, Error> {
        let host = self.host.as_ref().map(|host| match Query::parse(&format!("host:{host}")) {
            Ok(query @ Query::Host(_)) => Ok(query),
            _ => Err(Error::invalid("expected a host such as `example.org`").field("host")),
        });
        let query = self.query.as_ref().map(|query| {
            Query::parse(query).map_err(|error| match error {
                error @ SearchError::Query { .. } => Error::from(error).field("query"),
                error => error.into(),
            })
        });
        Ok(match (host.transpose()?, query.transpose()?) {
            (Some(host), Some(query)) => Some(query.and(host)),
            (host, query) => host.or(query),
        })
    }
}

/// Stored page of a URL, with its text.
pub async fn page(index: &dyn PageIndex, url: &str) -> Result<Option<StoredPage>, Error> {
    Ok(index.get(normal_url(url)?.as_str()).await?.map(|page| StoredPage::new(page, true)))
}

/// Crawl records, to list the pages of a crawl.
#[derive(Debug, Clone, Copy)]
pub struct CrawlStores<'a> {
    /// URLs of crawls.
    pub frontier: &'a dyn Frontier,
    /// Event histories of their items.
    pub trails: &'a dyn Trails,
}

impl CrawlStores<'_> {
    /// Id of an existing crawl.
    async fn crawl(&self, name: &str) -> Result<CrawlId, Error> {
        let crawl = CrawlId::new(name).map_err(|error| Error::invalid(error.to_string()).field("crawl"))?;
        match self.frontier.crawl(&crawl).await? {
            Some(_) => Ok(crawl),
            None => Err(Error::not_found(format!("there is no crawl `{name}`")).field("crawl")),
        }
    }

    /// Whether a page belongs to this crawl: its URL is done there, even if another crawl fetched the page.
    async fn has(&self, crawl: &CrawlId, page: &IndexedPage) -> Result<bool, Error> {
        let is_done = |entry: &Entry| entry.crawl == *crawl && entry.state == EntryState::Done;
        if self.frontier.find(&page.url).await?.iter().any(is_done) {
            return Ok(true);
        }
        // After a redirect the page is stored under its final URL, which is not the item's.
        let trail = self.trails.of_item(&page.item).await?;
        let of_item =
            trail.iter().filter(|entry| entry.stage == "crawl").find_map(|entry| entry.subject.as_ref());
        let Some(url) = of_item.filter(|url| **url != page.url) else { return Ok(false) };
        Ok(self.frontier.find(url).await?.iter().any(|entry| is_done(entry) && entry.item == page.item))
    }
}

/// Stored pages in order of URL. A list of a crawl needs its records.
pub async fn pages(
    index: &dyn PageIndex,
    records: Option<CrawlStores<'_>>,
    wanted: &PageQuery,
) -> Result<PageList, Error> {
    check_limit(wanted.limit, wanted.max_limit())?;
    let filter = wanted.filter()?;
    let of_crawl = match (&wanted.crawl, records) {
        (None, _) => None,
        (Some(name), Some(records)) => Some((records, records.crawl(name).await?)),
        (Some(_), None) => {
            return Err(Error::unavailable("this process has no crawl records; use a gateway that has them"));
        }
    };
    let mut pages: Vec<StoredPage> = Vec::new();
    let (mut text_bytes, mut scanned) = (0, 0);
    let mut last = wanted.cursor.clone();
    loop {
        // One page more than the limit shows whether there is a next list.
        let batch = (wanted.limit + 1 - pages.len()).min(BATCH);
        let part = match &filter {
            None => index.scan(last.as_deref(), batch).await?,
            Some(query) => index.scan_matching(query, last.as_deref(), batch).await?,
        };
        let is_end = part.len() < batch;
        for page in part {
            if pages.len() == wanted.limit || text_bytes > MAX_TEXT_BYTES || scanned == MAX_SCANNED {
                return Ok(PageList { pages, next: last });
            }
            last = Some(page.url.clone());
            if let Some((records, crawl)) = &of_crawl {
                scanned += 1;
                if !records.has(crawl, &page).await? {
                    continue;
                }
            }
            text_bytes += if wanted.with_text { page.text.len() } else { 0 };
            pages.push(StoredPage::new(page, wanted.with_text));
        }
        if is_end {
            return Ok(PageList { pages, next: None });
        }
    }
}
