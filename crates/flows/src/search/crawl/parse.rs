//! Step parse: the page with its links, and the checks whether it is published.

use super::{
    canonical::has_known_no_page,
    fetch::validators,
    links::{self, new_url},
    page::{Exit, PageCrawl},
};
use crate::search::scope::{From, Scope};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, Page, html::Robots, parse_bytes};
use crawlway_fetch::FetchResponse;
use crawlway_flow::StageError;
use crawlway_store::frontier::{self, NewUrl};
use std::time::Duration;

/// Size from which on bodies are parsed on a blocking thread.
const BLOCKING_FROM_BYTES: usize = 256 << 10;
/// Memory of a page while it is parsed and its message is built, as a multiple of its size: body, decoded text, main text,
/// index text, and the JSON of both.
const PARSE_MEMORY_FACTOR: usize = 6;
/// Deferral of an item whose page finds no free memory.
const MEMORY_DELAY: Duration = Duration::from_secs(1);

/// Parsed page. Its links are in the effect.
pub(super) struct Parsed {
    pub(super) page: Page,
    /// Whether only the beginning of the body was parsed.
    pub(super) truncated: bool,
    robots: Robots,
    canonical: Option<NormalUrl>,
    /// Detail for the trail.
    pub(super) detail: Option<String>,
}

impl PageCrawl<'_> {
    pub(super) async fn parse(
        &mut self,
        fetched: &mut FetchResponse,
        url: &NormalUrl,
    ) -> Result<Parsed, Exit> {
        self.note.facts.validators = validators(fetched, frontier::Validators::default());
        let (mut page, truncated) = self.parse_body(fetched).await?;
        let agent = self.stage.options.request.identity.robots_token();
        let robots = page.robots.or(header_robots(fetched, agent));
        let kind = Scope::kind(url);
        let from = From { kind: &kind, depth: self.job.depth, chain: self.job.chain };
        let page_links = std::mem::take(&mut page.links);
        let (scope, year) = (&self.settings.scope, self.now.civil().0);
        let links = links::select(page_links, scope, from, self.id.as_str(), robots.nofollow, year);
        let detail = links.summary();
        self.note.facts.links = links.stored;
        self.effect().links = links.followed;
        let canonical = page.canonical.take().map(Scope::tidy);
        Ok(Parsed { page, truncated, robots, canonical, detail })
    }

    /// Parses the body, or its beginning if the whole would exceed the memory of a page. Returns whether it was cut.
    async fn parse_body(&self, fetched: &mut FetchResponse) -> Result<(Page, bool), StageError> {
        let max = fetched.memory_reservation.max_page_bytes() / PARSE_MEMORY_FACTOR;
        let truncated = fetched.body.len() > max;
        if truncated {
            // A copy, so that the whole body is freed.
            fetched.body = fetched.body[..max].to_vec().into();
        }
        if fetched.memory_reservation.grow_to(fetched.body.len() * PARSE_MEMORY_FACTOR).await.is_err() {
            let reason = "the memory budget is used up by other pages".to_owned();
            return Err(StageError::DeferItem { until: Timestamp::now() + MEMORY_DELAY, reason });
        }
        let content_type = fetched.content_type().map(str::to_owned);
        let options = &self.stage.parse;
        if fetched.body.len() < BLOCKING_FROM_BYTES {
            let page = parse_bytes(&fetched.body, content_type.as_deref(), &fetched.url, options);
            return Ok((page, truncated));
        }
        let (body, url, options) = (fetched.body.clone(), fetched.url.clone(), options.clone());
        tokio::task::spawn_blocking(move || parse_bytes(&body, content_type.as_deref(), &url, &options))
            .await
            .map(|page| (page, truncated))
            .map_err(|error| StageError::Transient {
                after: None,
                error: format!("parsing the page: {error}"),
            })
    }

    /// Ends the crawl of a page with another canonical URL, which is crawled instead.
    pub(super) async fn check_canonical(&mut self, parsed: &Parsed, url: &NormalUrl) -> Result<(), Exit> {
        let Some(canonical) = &parsed.canonical else { return Ok(()) };
        if *canonical == *url
            || *canonical == self.url
            || self.job.ignore_canonical
            || self.settings.scope.takes(canonical).is_err()
            || has_known_no_page(&*self.stage.frontier, &self.job.crawl, canonical.as_str()).await?
        {
            return Ok(());
        }
        self.remove(url.as_str().to_owned());
        self.note.facts.canonical = Some(canonical.as_str().to_owned());
        let link = self.crawled_instead(canonical);
        let effect = self.effect();
        effect.links.push(link);
        effect.canonical = Some(canonical.as_str().to_owned());
        Err(Exit::ended("canonical_elsewhere", format!("its canonical URL is {canonical}")))
    }

    /// Ends the crawl of a page that asks not to be indexed.
    pub(super) fn check_noindex(&mut self, parsed: &Parsed, url: &NormalUrl) -> Result<(), Exit> {
        if !parsed.robots.noindex || self.stage.options.publish_noindex {
            return Ok(());
        }
        self.remove(url.as_str().to_owned());
        Err(Exit::Ended { outcome: "noindex", detail: parsed.detail.clone() })
    }

    /// URL that is crawled instead of the item's own, whatever the limits are.
    pub(super) fn crawled_instead(&self, url: &NormalUrl) -> NewUrl {
        let (depth, chain) = (self.job.depth, self.job.chain);
        NewUrl { ignore_limit: true, ..new_url(url.clone(), depth, chain, Some(self.id.as_str())) }
    }
}

fn header_robots(fetched: &FetchResponse, agent: &str) -> Robots {
    let values = fetched.headers.get_all("x-robots-tag").iter().filter_map(|value| value.to_str().ok());
    values.fold(Robots::default(), |robots, value| robots.or(Robots::from_header(value, agent)))
}
