//! The stage `crawl`: claims a URL, fetches it, reads the page, and says what is to be published and noted.

mod answer;
mod claims;
mod left_out;
mod links;

pub(super) use left_out::{has_no_page, settled};
pub(super) use links::{follow_kept, new_url};

use super::{
    Definition, FLOW, Stores, TermsState,
    message::{Metadata, PageMessage, cut},
    rescan::{change_terms, rescan},
    scope::{From, Scope},
    source::{CrawlJob, CrawlNote},
};
use answer::{Answer, answer};
use claims::{Claims, First, Mark, Owner};
use crawlway_broker::{Delivery, Outgoing, QueueName};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, Page, ParseOptions, html::Robots, parse_bytes, url::normalise};
use crawlway_fetch::{Fetched, Fetcher, Request, Share, Validators};
use crawlway_flow::{Context, EffectError, Invalid, Item, Output, Stage, StageError, fail, retry_delay};
use crawlway_store::{
    CrawlId, Frontier, PageIndex, SeenUrls, Ticket,
    frontier::{self, NewUrl, PageLinks},
    seen::Seen,
};
use futures::future::join_all;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Semaphore;

/// The steps of a page's way that are this stage's own, for fail points; the runner has its own besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlStep {
    /// The URL is claimed.
    Claimed,
    /// The answer is here.
    Fetched,
    /// The links are in the frontier.
    LinksStored,
    /// The URL is marked as seen.
    MarkedSeen,
}

impl CrawlStep {
    /// All of them, in order.
    pub const ALL: [CrawlStep; 4] = [Self::Claimed, Self::Fetched, Self::LinksStored, Self::MarkedSeen];

    /// Its name in the variable that names where to die.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Fetched => "fetched",
            Self::LinksStored => "links_stored",
            Self::MarkedSeen => "marked_seen",
        }
    }
}

/// How pages are crawled.
#[derive(Debug, Clone)]
pub struct CrawlOptions {
    /// The terms on which pages are fetched; the page itself is put in for each.
    pub request: Request,
    /// How long a URL is claimed by who fetches it.
    pub claim: Duration,
    /// How long a page waits after its first attempt that failed because of its host; doubled each time.
    pub host_retry: Duration,
    /// The longest such wait.
    pub longest_retry: Duration,
    /// Whether pages that ask not to be indexed are published all the same.
    pub publish_noindex: bool,
    /// How links are normalised.
    pub links: crawlway_content::UrlOptions,
}

/// Bodies from this size on are read off the threads that everything else waits for.
const LARGE: usize = 256 << 10;
/// How much memory a page takes while it is read and its message is made, beside its size: the body, its text in one encoding,
/// the text for people and the one for the index, and the JSON of both.
const PARSED: usize = 6;
/// How long an item waits whose page finds no memory.
const WAIT_FOR_MEMORY: Duration = Duration::from_secs(1);
/// The most of a title or a description that is kept, in bytes.
const MOST_TITLE: usize = 16 << 10;
/// How many scopes are kept; more crawls than that at once ask the store more often.
const MOST_SCOPES: usize = 1_000;

/// The stage.
#[derive(Debug)]
pub(super) struct CrawlStage {
    fetcher: Arc<Fetcher>,
    frontier: Arc<dyn Frontier>,
    seen: Arc<dyn SeenUrls>,
    queue: QueueName,
    /// The largest message that the index stage takes.
    most_bytes: usize,
    options: CrawlOptions,
    parse: ParseOptions,
    claims: Claims,
    /// A place for each page that may be fetched at the same time.
    places: Semaphore,
    /// What can be searched, if that is kept where this process can reach it.
    index: Option<Arc<dyn PageIndex>>,
    scopes: Mutex<HashMap<CrawlId, Arc<Terms>>>,
}

/// What a crawl asks for, ready to use.
#[derive(Debug)]
struct Terms {
    revision: u64,
    scope: Scope,
    seeds: HashSet<String>,
    recrawl_after: Duration,
    /// When the crawl was made.
    created_at: Timestamp,
    state: TermsState,
}

impl Terms {
    /// The age from which on a mark of this URL counts for nothing.
    fn max_age(&self, url: &str, now: Timestamp) -> Duration {
        let since = |time: u64| now.since(Timestamp::from_millis(time));
        let mut age =
            self.state.fresh_since.map_or(self.recrawl_after, |time| since(time).min(self.recrawl_after));
        if self.seeds.contains(url) {
            age = age.min(since(self.state.seeds_given_at));
        }
        age
    }
}

/// The outcome of URLs that are not, or no longer, in the scope of their crawl.
pub(super) const fn out_of_scope() -> &'static str {
    "out_of_scope"
}

/// The outcome of URLs that robots.txt forbids.
pub(super) const fn disallowed() -> &'static str {
    "disallowed"
}

/// What must happen after the page was published.
#[derive(Debug)]
pub(super) struct Crawled {
    crawl: CrawlId,
    url: String,
    /// When it was fetched.
    at: Timestamp,
    links: Vec<NewUrl>,
    /// Nothing is published under this URL, but under another: the one that the page names as the proper one, or that
    /// it redirects to.
    left_out_for: Option<String>,
    /// It is left out because it redirects.
    redirected: bool,
    /// There is no page under this URL, so that none can be left out for it.
    no_page: bool,
    /// What was to be found under these URLs before is no longer there, or no longer wanted.
    unfindable: Vec<String>,
    seen: Vec<Seen>,
    /// The memory that its message takes, until all of this has happened.
    share: Option<Share>,
}

type Done = Output<Crawled, CrawlNote>;

impl CrawlStage {
    pub(super) fn new(
        fetcher: Arc<Fetcher>,
        stores: &Stores,
        queue: QueueName,
        most_bytes: usize,
        options: CrawlOptions,
        fetch_at_once: usize,
    ) -> Self {
        let (frontier, seen, index) = (stores.frontier.clone(), stores.seen.clone(), stores.index());
        let claims = Claims::new(seen.clone(), frontier.clone(), options.claim);
        let parse = ParseOptions {
            url: options.links.clone(),
            agent: Some(options.request.identity.robots_token().to_owned()),
            // The index stage computes it, since pages may come from elsewhere.
            without_simhash: true,
            ..ParseOptions::default()
        };
        let (places, scopes) = (Semaphore::new(fetch_at_once.max(1)), Mutex::default());
        Self { fetcher, frontier, seen, queue, most_bytes, options, parse, claims, places, index, scopes }
    }

    /// Crawls an item. The URLs that were claimed for it are added to `claimed`.
    async fn crawl(
        &self,
        item: Item<CrawlJob>,
        context: &Context,
        claimed: &mut Vec<String>,
    ) -> Result<Done, StageError> {
        let id = item.id.as_str();
        let job = item.value;
        let owner = Owner::new(id, &job.crawl);
        let url: NormalUrl = job
            .url
            .parse()
            .map_err(|error| StageError::Permanent { reason: format!("url.invalid: {error}") })?;
        let mut terms = self.terms(&job.crawl, job.revision).await?;
        let now = context.clock.now();
        if let Err(why) = terms.scope.still_has(&url, job.depth) {
            let mut done = Done::nothing(out_of_scope());
            done.detail = Some(format!("the crawl's scope was narrowed: {why}"));
            return Ok(done);
        }
        let max_age = terms.max_age(&job.url, now);
        match self.claims.first(&job.url, &owner, max_age, terms.created_at, now).await? {
            First::Ours => claimed.push(job.url.clone()),
            // The page is in a file of another crawl, and is wanted in the index.
            First::Seen(mark) if self.went_to_a_file(&mark, &job.crawl, &terms).await => {
                self.claims.take_over(&job.url, &owner, now).await?;
                claimed.push(job.url.clone());
            }
            First::Seen(mark) => return Ok(skipped(job, id, &terms.scope, mark, now)),
        }
        fail::passed("crawl", CrawlStep::Claimed.name());
        let request = Request {
            url: url.clone(),
            ticket: Ticket::of(&format!("{id} {}", job.url)),
            validators: Validators {
                etag: job.validators.etag.clone(),
                last_modified: job.validators.last_modified.clone(),
            },
            ..self.options.request.clone()
        };
        let fetched = {
            // Nobody closes it.
            let _place = self.places.acquire().await;
            self.fetcher.fetch(&request).await
        };
        fail::passed("crawl", CrawlStep::Fetched.name());
        let now = context.clock.now();
        let ttl = terms.recrawl_after;
        let mark = |url: &str| Seen { url: url.to_owned(), owner: owner.to_string(), ttl };
        let mut note = CrawlNote { asked: true, ..CrawlNote::default() };
        note.facts.crawled_at = Some(now);
        let mut crawled = Crawled {
            crawl: job.crawl.clone(),
            url: job.url.clone(),
            at: now,
            links: Vec::new(),
            left_out_for: None,
            redirected: false,
            no_page: false,
            unfindable: Vec::new(),
            seen: vec![mark(&job.url)],
            share: None,
        };
        let done = |outcome, detail, crawled, note| Done {
            publish: Vec::new(),
            effect: Some(crawled),
            note,
            outcome,
            detail,
        };
        let known_before = job.validators != frontier::Validators::default();
        let host_delay = retry_delay(self.options.host_retry, item.attempt, self.options.longest_retry);
        let mut fetched = match answer(fetched, &url, known_before, host_delay, &context.clock)? {
            Answer::Page(fetched) => fetched,
            Answer::Unchanged(fetched) => {
                note.facts.fetched = true;
                note.facts.validators = kept(&fetched, job.validators);
                return Ok(done("unchanged", None, crawled, note));
            }
            Answer::Nothing { outcome, detail, asked, gone } => {
                note.asked = asked;
                note.facts.fetched = asked;
                note.facts.links = Some(String::new());
                crawled.no_page = true;
                note.no_page = true;
                crawled.unfindable.extend(gone.then_some(job.url));
                if !asked {
                    // It was not fetched, so that others need not take it for that.
                    note.facts.crawled_at = None;
                    crawled.seen.clear();
                    self.claims.release(claimed, &owner).await?;
                }
                return Ok(done(outcome, Some(detail), crawled, note));
            }
            Answer::Elsewhere { url: target, why } => {
                note.facts.fetched = true;
                note.facts.links = Some(String::new());
                let target = self.tidy(target);
                self.join(&mut terms, &job, &target, now).await?;
                crawled.unfindable.push(job.url);
                if let Err(scope) = terms.scope.takes(&target) {
                    crawled.no_page = true;
                    note.no_page = true;
                    let detail = format!("redirected to {target}: {scope}");
                    return Ok(done(out_of_scope(), Some(detail), crawled, note));
                }
                let detail = format!("redirected to {target}, which is not to be asked now: {why}");
                crawled.links.push(instead(&target, (job.depth, job.chain), id));
                note.facts.canonical = Some(target.as_str().to_owned());
                crawled.left_out_for = Some(target.into_string());
                crawled.redirected = true;
                return Ok(done("redirected", Some(detail), crawled, note));
            }
        };
        note.facts.fetched = true;
        // Under a session's URL it would be another page each time.
        let here = self.tidy(fetched.url.clone());
        if here != url {
            self.join(&mut terms, &job, &here, now).await?;
            crawled.unfindable.push(job.url);
            if let Err(why) = terms.scope.has(&here) {
                crawled.no_page = true;
                note.no_page = true;
                note.facts.links = Some(String::new());
                let detail = format!("redirected to {here}: {why}");
                return Ok(done(out_of_scope(), Some(detail), crawled, note));
            }
            if !self.claims.target(here.as_str(), &owner, max_age).await? {
                note.facts.links = Some(String::new());
                let detail = format!("redirected to {here}, which has an item of its own");
                note.facts.canonical = Some(here.as_str().to_owned());
                crawled.left_out_for = Some(here.into_string());
                crawled.redirected = true;
                return Ok(done("redirected", Some(detail), crawled, note));
            }
            claimed.push(here.as_str().to_owned());
            crawled.seen.push(mark(here.as_str()));
        }
        note.facts.validators = kept(&fetched, frontier::Validators::default());
        let (mut page, truncated) = self.read(&mut fetched).await?;
        let robots = page.robots.or(header_robots(&fetched, self.options.request.identity.robots_token()));
        let kind = Scope::kind(&here);
        let from = From { kind: &kind, depth: job.depth, chain: job.chain };
        let sorted = links::sort(page.links, &terms.scope, from, id, robots.nofollow, now.civil().0);
        let told = sorted.told();
        note.facts.links = sorted.kept;
        crawled.links = sorted.followed;
        if let Some(canonical) = page.canonical.map(Scope::tidy)
            && canonical != here
            && canonical != url
            && !job.insist
            && terms.scope.takes(&canonical).is_ok()
            && !left_out::is_known_to_have_no_page(&*self.frontier, &job.crawl, canonical.as_str()).await?
        {
            let detail = format!("names {canonical} as its proper URL");
            crawled.links.push(instead(&canonical, (job.depth, job.chain), id));
            note.facts.canonical = Some(canonical.as_str().to_owned());
            crawled.left_out_for = Some(canonical.into_string());
            crawled.unfindable.push(here.into_string());
            return Ok(done("canonical_elsewhere", Some(detail), crawled, note));
        }
        if robots.noindex && !self.options.publish_noindex {
            crawled.unfindable.push(here.into_string());
            return Ok(done("noindex", told, crawled, note));
        }
        cut(&mut page.title, MOST_TITLE);
        if let Some(description) = &mut page.description {
            cut(description, MOST_TITLE);
        }
        let metadata = Metadata {
            title: page.title,
            description: page.description,
            timestamp: now.to_iso(),
            status_code: i64::from(fetched.status.as_u16()),
        };
        let body = PageMessage::body(here.into_string(), page.text, metadata, truncated, self.most_bytes);
        // The message waits to be published, and what was fetched is no longer needed.
        fetched.share.shrink(body.len());
        crawled.share = Some(fetched.share);
        let mut done = done("published", told, crawled, note);
        done.publish.push(Outgoing::to_queue(&self.queue, body).id(item.id.clone()));
        Ok(done)
    }

    /// The URL under which a page is known: without session ids and what is dropped from links.
    fn tidy(&self, url: NormalUrl) -> NormalUrl {
        Scope::tidy(normalise(url.as_str(), &self.options.links).unwrap_or(url))
    }

    /// Reads a page, or its beginning if the whole would take more memory than a page may have. Says whether it was cut.
    async fn read(&self, fetched: &mut Fetched) -> Result<(Page, bool), StageError> {
        let most = fetched.share.page_most() / PARSED;
        let truncated = fetched.body.len() > most;
        if truncated {
            // A copy, so that the whole is let go.
            fetched.body = fetched.body[..most].to_vec().into();
        }
        if fetched.share.cover(fetched.body.len() * PARSED).await.is_err() {
            let why = "other pages have all the memory that pages may take together".to_owned();
            return Err(StageError::HeldUp { until: Timestamp::now() + WAIT_FOR_MEMORY, why });
        }
        let content_type = fetched.content_type().map(str::to_owned);
        if fetched.body.len() < LARGE {
            let page = parse_bytes(&fetched.body, content_type.as_deref(), &fetched.url, &self.parse);
            return Ok((page, truncated));
        }
        let (body, url, options) = (fetched.body.clone(), fetched.url.clone(), self.parse.clone());
        tokio::task::spawn_blocking(move || parse_bytes(&body, content_type.as_deref(), &url, &options))
            .await
            .map(|page| (page, truncated))
            .map_err(|error| StageError::Transient {
                after: None,
                error: format!("reading the page: {error}"),
            })
    }

    /// Whether a page that another crawl has fetched went to a file, and ours go into the index.
    async fn went_to_a_file(&self, mark: &Mark, ours: &CrawlId, terms: &Terms) -> bool {
        let crawl = mark.owner.rsplit_once('@').and_then(|(_, crawl)| CrawlId::new(crawl).ok());
        let Some(crawl) = crawl.filter(|crawl| crawl != ours && !terms.state.not_indexed) else {
            return false;
        };
        self.terms(&crawl, 0).await.is_ok_and(|theirs| theirs.state.not_indexed)
    }

    /// Takes the host that a seed redirects to into the scope of its crawl.
    async fn join(
        &self,
        terms: &mut Arc<Terms>,
        job: &CrawlJob,
        target: &NormalUrl,
        now: Timestamp,
    ) -> Result<(), StageError> {
        if terms.scope.has(target) != Err("scope.host") || !terms.seeds.contains(&job.url) {
            return Ok(());
        }
        let host = target.host();
        let joined = change_terms(&*self.frontier, &job.crawl, |terms| {
            if !terms.state.joined_hosts.iter().any(|known| known == host) {
                terms.state.joined_hosts.push(host.to_owned());
            }
        });
        if let Some(definition) = joined.await? {
            tracing::info!(crawl = %job.crawl, seed = job.url, host, "joins the scope: the seed redirects there");
            rescan(&*self.frontier, &job.crawl, &definition, now).await?;
            // Whatever the revision is now, it is not the one that is known here.
            *terms = self.terms(&job.crawl, terms.revision + 1).await?;
        }
        Ok(())
    }

    /// What the item's crawl asks for, in this revision or a later one.
    async fn terms(&self, crawl: &CrawlId, revision: u64) -> Result<Arc<Terms>, StageError> {
        let lock = || self.scopes.lock();
        if let Some(terms) = lock().get(crawl)
            && terms.revision >= revision
        {
            return Ok(terms.clone());
        }
        let Some(stored) = self.frontier.crawl(crawl).await? else {
            let reason = format!("the crawl `{crawl}` of this item is unknown; it was deleted");
            return Err(StageError::Permanent { reason });
        };
        let (revision, created_at) = (stored.revision, stored.created_at);
        // Workers of that version may be at work beside this one, and its URLs are theirs.
        let newer = |error: serde_json::Error| StageError::Ours {
            error: format!(
                "the terms of crawl `{crawl}` are of a newer version, whose workers have to crawl it; use that version \
                 here, too: {error}"
            ),
        };
        let definition: Definition = serde_json::from_str(&stored.definition).map_err(newer)?;
        let terms = Arc::new(Terms {
            revision,
            scope: Scope::new(&definition),
            seeds: definition.seeds.into_iter().collect(),
            recrawl_after: definition.recrawl_after,
            created_at,
            state: definition.state,
        });
        let mut scopes = lock();
        if scopes.len() >= MOST_SCOPES {
            scopes.clear();
        }
        scopes.insert(crawl.clone(), terms.clone());
        Ok(terms)
    }

    /// Adds links, crawl by crawl.
    async fn store_links(&self, effects: &[&Crawled]) -> Result<(), EffectError> {
        let mut by_crawl: HashMap<&CrawlId, Vec<NewUrl>> = HashMap::new();
        for effect in effects {
            by_crawl.entry(&effect.crawl).or_default().extend(effect.links.iter().cloned());
        }
        for (crawl, links) in by_crawl {
            self.frontier.add(crawl, &links).await?;
        }
        Ok(())
    }

    /// Takes out of the index what is no longer to be found. Only a process that has the index can: the messages of
    /// the queue know no removal.
    async fn remove(&self, effects: &[&Crawled]) -> Result<(), EffectError> {
        let Some(index) = &self.index else { return Ok(()) };
        let urls: Vec<String> = effects.iter().flat_map(|effect| effect.unfindable.iter().cloned()).collect();
        // By the time this is done, one of them may have been crawled again and published. The earliest time leaves all of
        // those.
        let gone_at =
            effects.iter().filter(|effect| !effect.unfindable.is_empty()).map(|effect| effect.at).min();
        if gone_at.is_some() {
            index.remove(&urls, gone_at).await?;
        }
        Ok(())
    }

    /// Crawls an item. If it is about to be given up, what was left out for its URL is wanted after all.
    async fn crawl_or_give_up(&self, item: Item<CrawlJob>, context: &Context) -> Result<Done, StageError> {
        let (crawl, url, attempt) = (item.value.crawl.clone(), item.value.url.clone(), item.attempt);
        let owner = Owner::new(item.id.as_str(), &crawl);
        let mut claimed = Vec::new();
        let done = self.crawl(item, context, &mut claimed).await;
        let has_failed = matches!(done, Err(StageError::Permanent { .. } | StageError::Transient { .. }));
        if has_failed && let Err(error) = self.claims.release(&claimed, &owner).await {
            // They end by themselves, and the next claimant looks whether their owner is still in flight.
            tracing::debug!(%crawl, url, %error, "claims were not released");
        }
        let over = match &done {
            Err(StageError::Permanent { .. }) => true,
            Err(StageError::Transient { .. }) => attempt >= self.frontier.policy().max_attempts,
            _ => false,
        };
        if over {
            left_out::take_in(&*self.frontier, &crawl, &url).await?;
        }
        done
    }
}

#[async_trait::async_trait]
impl Stage for CrawlStage {
    type In = CrawlJob;
    type Effect = Crawled;
    type Note = CrawlNote;

    fn name(&self) -> &'static str {
        "crawl"
    }

    fn decode(&self, delivery: &Delivery) -> Result<CrawlJob, Invalid> {
        serde_json::from_slice(&delivery.message.body)
            .map_err(|error| Invalid(format!("the job of flow {FLOW} cannot be read: {error}")))
    }

    fn subject(&self, job: &CrawlJob) -> Option<String> {
        Some(job.url.clone())
    }

    async fn run(&self, batch: Vec<Item<CrawlJob>>, context: &Context) -> Vec<Result<Done, StageError>> {
        join_all(batch.into_iter().map(|item| self.crawl_or_give_up(item, context))).await
    }

    async fn after_publish(&self, effects: &[&Crawled], _context: &Context) -> Result<(), EffectError> {
        self.store_links(effects).await?;
        left_out::settle(&*self.frontier, effects).await?;
        self.remove(effects).await?;
        fail::passed("crawl", CrawlStep::LinksStored.name());
        let seen: Vec<Seen> = effects.iter().flat_map(|effect| effect.seen.iter().cloned()).collect();
        self.seen.mark(&seen).await?;
        fail::passed("crawl", CrawlStep::MarkedSeen.name());
        Ok(())
    }
}

/// An item whose URL was crawled lately: its page is left out, its links are not.
fn skipped(job: CrawlJob, id: &str, scope: &Scope, mark: Mark, now: Timestamp) -> Done {
    let Mark { owner, at, until, links } = mark;
    let mut done = Done::nothing("seen");
    done.detail = Some(format!("fetched lately by item {owner}, again from {}", until.to_iso()));
    done.note.facts.crawled_at = Some(at.unwrap_or(now));
    if let Some(links) = links {
        let CrawlJob { crawl, url, depth, chain, .. } = job;
        let page = PageLinks { place: 0, item: id.to_owned(), url: url.clone(), depth, chain, links };
        let followed = follow_kept(&page, scope, now);
        done.note.facts.links = Some(page.links);
        done.effect = Some(Crawled {
            crawl,
            url,
            at: now,
            links: followed,
            left_out_for: None,
            redirected: false,
            no_page: false,
            unfindable: Vec::new(),
            seen: Vec::new(),
            share: None,
        });
    }
    done
}

/// A URL that is crawled instead of the item's own.
fn instead(url: &NormalUrl, (depth, chain): (u32, u32), id: &str) -> NewUrl {
    NewUrl { in_any_case: true, ..new_url(url.clone(), depth, chain, Some(id)) }
}

/// What the page was this time, or else last time.
fn kept(fetched: &Fetched, before: frontier::Validators) -> frontier::Validators {
    let Validators { etag, last_modified } = Validators::of(&fetched.headers);
    frontier::Validators { etag: etag.or(before.etag), last_modified: last_modified.or(before.last_modified) }
}

fn header_robots(fetched: &Fetched, agent: &str) -> Robots {
    let values = fetched.headers.get_all("x-robots-tag").iter().filter_map(|value| value.to_str().ok());
    values.fold(Robots::default(), |robots, value| robots.or(Robots::from_header(value, agent)))
}
