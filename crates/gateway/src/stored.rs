//! What is answered about stored pages: one by its URL, or a list by host, query or crawl. The routes and the command line both
//! ask here.

use crate::{
    problem::Problem,
    shape::{PageList, StoredPage},
};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_store::{
    CrawlId, Frontier, IndexedPage, PageIndex, Trails,
    frontier::{Entry, EntryState},
    pages::{Query, SearchError},
};

/// The most pages in one list.
pub const MAX_LISTED: usize = 1_000;
/// The most pages in one list with their texts.
pub const MAX_WITH_TEXT: usize = 100;

/// How many pages are read from the index at a time.
const AT_ONCE: usize = 20;
/// A list ends after so many bytes of text, so that a few large pages do not take all memory.
const MAX_TEXT: usize = 8 << 20;
/// A list of a crawl's pages ends after so many of any crawl, so that a small crawl in a large index is answered in time, too.
const MAX_SEEN: usize = 2_000;

/// Which stored pages are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagesWanted {
    /// Only those of this host and its subdomains.
    pub host: Option<String>,
    /// Only those that this query finds.
    pub query: Option<String>,
    /// Only those of the crawl of this name.
    pub crawl: Option<String>,
    /// Go on after the list that had this as its `next`.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// Whether the texts are in the list.
    pub with_text: bool,
}

impl PagesWanted {
    /// The most pages that one list can have.
    pub fn most(&self) -> usize {
        if self.with_text { MAX_WITH_TEXT } else { MAX_LISTED }
    }

    /// What pages must match, if they need not be all.
    fn filter(&self) -> Result<Option<Query>, Problem> {
        let host = self.host.as_ref().map(|host| match Query::parse(&format!("host:{host}")) {
            Ok(query @ Query::Host(_)) => Ok(query),
            _ => Err(Problem::invalid("expected a host such as `example.org`").field("host")),
        });
        let query = self.query.as_ref().map(|query| {
            Query::parse(query).map_err(|error| match error {
                error @ SearchError::Query { .. } => Problem::from(error).field("query"),
                error => error.into(),
            })
        });
        Ok(match (host.transpose()?, query.transpose()?) {
            (Some(host), Some(query)) => Some(query.and(host)),
            (host, query) => host.or(query),
        })
    }
}

/// The stored page of a URL, whole.
pub async fn page(index: &dyn PageIndex, url: &str) -> Result<Option<StoredPage>, Problem> {
    let url = normalise(url, &UrlOptions::default())
        .map_err(|error| Problem::invalid(error.to_string()).field("url"))?;
    Ok(index.get(url.as_str()).await?.map(|page| StoredPage::new(page, true)))
}

/// What is known of crawls, for who lists the pages of one.
#[derive(Debug, Clone, Copy)]
pub struct CrawlRecords<'a> {
    /// The URLs of crawls.
    pub frontier: &'a dyn Frontier,
    /// What happened to their items.
    pub trails: &'a dyn Trails,
}

impl CrawlRecords<'_> {
    /// The crawl of this name.
    async fn crawl(&self, name: &str) -> Result<CrawlId, Problem> {
        let crawl = CrawlId::new(name).map_err(|error| Problem::invalid(error.to_string()).field("crawl"))?;
        match self.frontier.crawl(&crawl).await? {
            Some(_) => Ok(crawl),
            None => Err(Problem::not_found(format!("there is no crawl `{name}`")).field("crawl")),
        }
    }

    /// Whether a page is one of this crawl: the crawl is done with its URL, whoever has fetched it.
    async fn has(&self, crawl: &CrawlId, page: &IndexedPage) -> Result<bool, Problem> {
        let is_done = |entry: &Entry| entry.crawl == *crawl && entry.state == EntryState::Done;
        if self.frontier.find(&page.url).await?.iter().any(is_done) {
            return Ok(true);
        }
        // A page that its item was redirected to is stored under another URL than the item's.
        let trail = self.trails.of_item(&page.item).await?;
        let of_item =
            trail.iter().filter(|entry| entry.stage == "crawl").find_map(|entry| entry.subject.as_ref());
        let Some(url) = of_item.filter(|url| **url != page.url) else { return Ok(false) };
        Ok(self.frontier.find(url).await?.iter().any(|entry| is_done(entry) && entry.item == page.item))
    }
}

/// Stored pages in order of URL. Those of a crawl need its records.
pub async fn pages(
    index: &dyn PageIndex,
    records: Option<CrawlRecords<'_>>,
    wanted: &PagesWanted,
) -> Result<PageList, Problem> {
    let most = wanted.most();
    if wanted.limit == 0 || wanted.limit > most {
        return Err(Problem::invalid(format!("expected 1 to {most}")).field("limit"));
    }
    let filter = wanted.filter()?;
    let of_crawl = match (&wanted.crawl, records) {
        (None, _) => None,
        (Some(name), Some(records)) => Some((records, records.crawl(name).await?)),
        (Some(_), None) => {
            return Err(Problem::unavailable("this process has no records of crawls; ask one that has"));
        }
    };
    let mut pages: Vec<StoredPage> = Vec::new();
    let (mut text, mut seen) = (0, 0);
    let mut last = wanted.cursor.clone();
    loop {
        // One more than is shown says whether there are more.
        let asked = (wanted.limit + 1 - pages.len()).min(AT_ONCE);
        let part = match &filter {
            None => index.scan(last.as_deref(), asked).await?,
            Some(query) => index.matching(query, last.as_deref(), asked).await?,
        };
        let is_end = part.len() < asked;
        for page in part {
            if pages.len() == wanted.limit || text > MAX_TEXT || seen == MAX_SEEN {
                return Ok(PageList { pages, next: last });
            }
            last = Some(page.url.clone());
            if let Some((records, crawl)) = &of_crawl {
                seen += 1;
                if !records.has(crawl, &page).await? {
                    continue;
                }
            }
            text += if wanted.with_text { page.text.len() } else { 0 };
            pages.push(StoredPage::new(page, wanted.with_text));
        }
        if is_end {
            return Ok(PageList { pages, next: None });
        }
    }
}
