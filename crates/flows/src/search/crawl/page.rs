//! Crawl of one page: the state that its steps share, their order, and the first of them.

use super::{
    CrawlStage, CrawlStep, Done, OUT_OF_SCOPE,
    claims::{OwnClaim, Owner, SeenMark},
    effects::CrawlEffect,
    links::follow_stored,
    settings::CrawlSettings,
};
use crate::search::source::{CrawlJob, CrawlNote};
use crawlway_broker::{MessageId, Outgoing};
use crawlway_clock::{Clock, Timestamp};
use crawlway_content::NormalUrl;
use crawlway_flow::{Item, StageError, fail};
use crawlway_store::{CrawlId, StoreError, frontier::PageLinks, seen::SeenUrl};
use std::{sync::Arc, time::Duration};

/// Crawl of one page.
pub(super) struct PageCrawl<'a> {
    pub(super) stage: &'a CrawlStage,
    pub(super) clock: &'a Clock,
    /// URLs claimed so far, which are released if the attempt fails.
    pub(super) claimed: &'a mut Vec<String>,
    pub(super) id: MessageId,
    pub(super) attempt: u32,
    pub(super) job: CrawlJob,
    /// Parsed `job.url`.
    pub(super) url: NormalUrl,
    pub(super) owner: Owner,
    pub(super) settings: Arc<CrawlSettings>,
    /// Age from which on seen marks are ignored.
    pub(super) max_age: Duration,
    /// Time of the start, then of the response.
    pub(super) now: Timestamp,
    pub(super) note: CrawlNote,
    pub(super) effect: Option<CrawlEffect>,
}

/// Early end of a page's crawl.
pub(super) enum Exit {
    /// Success without a message.
    Ended { outcome: &'static str, detail: Option<String> },
    /// Failed or deferred attempt.
    Failed(StageError),
}

impl Exit {
    pub(super) fn ended(outcome: &'static str, detail: String) -> Self {
        Self::Ended { outcome, detail: Some(detail) }
    }
}

impl From<StageError> for Exit {
    fn from(error: StageError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Exit {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a> PageCrawl<'a> {
    /// Start state of an item: parsed URL and settings of its crawl.
    pub(super) async fn new(
        stage: &'a CrawlStage,
        item: Item<CrawlJob>,
        clock: &'a Clock,
        claimed: &'a mut Vec<String>,
    ) -> Result<Self, StageError> {
        let Item { id, value: job, attempt, .. } = item;
        let url: NormalUrl = job
            .url
            .parse()
            .map_err(|error| StageError::Permanent { reason: format!("url.invalid: {error}") })?;
        let settings = stage.settings.get(&job.crawl, job.revision).await?;
        let now = clock.now();
        Ok(Self {
            stage,
            clock,
            claimed,
            owner: Owner::new(id.as_str(), &job.crawl),
            id,
            attempt,
            max_age: settings.max_age(&job.url, now),
            job,
            url,
            settings,
            now,
            note: CrawlNote::default(),
            effect: None,
        })
    }

    /// Runs the steps up to the message. The runner publishes it and applies the effect.
    pub(super) async fn run(mut self) -> Result<Done, StageError> {
        let (publish, outcome, detail) = match self.steps().await {
            Ok((message, detail)) => (vec![message], "published", detail),
            Err(Exit::Ended { outcome, detail }) => (Vec::new(), outcome, detail),
            Err(Exit::Failed(error)) => return Err(error),
        };
        Ok(Done { publish, effect: self.effect, note: self.note, outcome, detail })
    }

    /// Message of the page, and the detail for its trail.
    async fn steps(&mut self) -> Result<(Outgoing, Option<String>), Exit> {
        self.check_scope()?;
        self.claim().await?;
        let mut fetched = self.fetch().await?;
        let url = self.resolve_redirect(&fetched).await?;
        let parsed = self.parse(&mut fetched, &url).await?;
        self.check_canonical(&parsed, &url).await?;
        self.check_noindex(&parsed, &url)?;
        self.keep_html(&fetched, &url).await?;
        let detail = parsed.detail.clone();
        Ok((self.message(parsed, *fetched, url), detail))
    }

    fn check_scope(&self) -> Result<(), Exit> {
        let in_scope = self.settings.scope.still_has(&self.url, self.job.depth);
        in_scope
            .map_err(|reason| Exit::ended(OUT_OF_SCOPE, format!("the crawl's scope was narrowed: {reason}")))
    }

    /// Step claim: the URL is claimed for this item, or was seen already.
    async fn claim(&mut self) -> Result<(), Exit> {
        let (claims, url) = (&self.stage.claims, &self.job.url);
        let created_at = self.settings.created_at;
        match claims.claim_own(url, &self.owner, self.max_age, created_at, self.now).await? {
            OwnClaim::Claimed => {}
            OwnClaim::Seen(mark) if self.is_missing_in_index(&mark).await => {
                claims.take_over(url, &self.owner, self.now).await?;
            }
            OwnClaim::Seen(mark) => return Err(self.skip(mark)),
        }
        self.claimed.push(self.job.url.clone());
        fail::passed("crawl", CrawlStep::Claimed.name());
        Ok(())
    }

    /// Whether another crawl exported the page to a file, while this crawl fills the index.
    async fn is_missing_in_index(&self, mark: &SeenMark) -> bool {
        let crawl = mark.owner.rsplit_once('@').and_then(|(_, crawl)| CrawlId::new(crawl).ok());
        let is_other = |crawl: &CrawlId| *crawl != self.job.crawl && !self.settings.state.not_indexed;
        let Some(crawl) = crawl.filter(is_other) else { return false };
        self.stage.settings.get(&crawl, 0).await.is_ok_and(|other| other.state.not_indexed)
    }

    /// Skips a URL that was seen already; its stored links are followed.
    fn skip(&mut self, mark: SeenMark) -> Exit {
        let SeenMark { owner, at, until, links } = mark;
        self.note.facts.crawled_at = Some(at.unwrap_or(self.now));
        if let Some(links) = links {
            let page = PageLinks {
                cursor: 0,
                item: self.id.as_str().to_owned(),
                url: self.job.url.clone(),
                depth: self.job.depth,
                chain: self.job.chain,
                links,
            };
            self.effect().links = follow_stored(&page, &self.settings.scope, self.now);
            self.note.facts.links = Some(page.links);
        }
        Exit::ended("seen", format!("already fetched by item {owner}; due again at {}", until.to_iso()))
    }

    /// Effect of this page, empty at first.
    pub(super) fn effect(&mut self) -> &mut CrawlEffect {
        let (job, now) = (&self.job, self.now);
        self.effect.get_or_insert_with(|| CrawlEffect::new(job.crawl.clone(), job.url.clone(), now))
    }

    pub(super) fn mark_seen(&mut self, url: &str) {
        let (owner, ttl) = (self.owner.to_string(), self.settings.recrawl_after);
        self.effect().seen.push(SeenUrl { url: url.to_owned(), owner, ttl });
    }

    /// Removes the page under this URL from the index, should it be there.
    pub(super) fn remove(&mut self, url: String) {
        self.effect().removed.push(url);
    }

    /// Notes that the URL has no page and no links.
    pub(super) fn set_no_page(&mut self) {
        self.effect().no_page = true;
        self.note.no_page = true;
        self.note.facts.links = Some(String::new());
    }
}
