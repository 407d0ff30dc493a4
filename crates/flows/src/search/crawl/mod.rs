//! The stage `crawl`: claims a URL, fetches it, reads the page, and says what is to be published and noted.

mod answer;
mod links;

pub(super) use links::new_url;

use super::{
    Definition, FLOW,
    message::{Metadata, PageMessage},
    scope::{From, Scope},
    source::{CrawlJob, CrawlNote},
};
use answer::{Answer, answer};
use crawlway_broker::{Delivery, Outgoing, QueueName};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, Page, ParseOptions, html::Robots, index_text, parse_bytes};
use crawlway_fetch::{Fetched, Fetcher, Request, Validators};
use crawlway_flow::{Coalesce, Context, EffectError, Invalid, Item, Output, Stage, StageError, fail};
use crawlway_store::{
    CrawlId, Frontier, SeenUrls, StoreError, Ticket,
    frontier::{self, NewUrl},
    seen::{Claim, Claimed, Seen},
};
use futures::future::join_all;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
    /// Whether pages that ask not to be indexed are published all the same.
    pub publish_noindex: bool,
    /// How links are normalised.
    pub links: crawlway_content::UrlOptions,
}

/// Bodies from this size on are read off the threads that everything else waits for.
const LARGE: usize = 256 << 10;
/// How long to wait for somebody else who is at the same URL.
const SOMEBODY_ELSE: Duration = Duration::from_secs(2);
/// How many scopes are kept; more crawls than that at once ask the store more often.
const MOST_SCOPES: usize = 1_000;
/// How many claims are made by one call at most.
const MOST_CLAIMS: usize = 256;

/// The stage.
#[derive(Debug)]
pub(super) struct CrawlStage {
    fetcher: Arc<Fetcher>,
    frontier: Arc<dyn Frontier>,
    seen: Arc<dyn SeenUrls>,
    queue: QueueName,
    options: CrawlOptions,
    parse: ParseOptions,
    claims: Coalesce<Claim, Result<Claimed, StoreError>>,
    scopes: Mutex<HashMap<CrawlId, Arc<Terms>>>,
}

/// What a crawl asks for, ready to use.
#[derive(Debug)]
struct Terms {
    scope: Scope,
    recrawl_after: Duration,
}

/// What must happen after the page was published.
#[derive(Debug)]
pub(super) struct Crawled {
    crawl: CrawlId,
    url: String,
    links: Vec<NewUrl>,
    /// The page names another URL as the proper one, which is to be crawled instead.
    canonical: Option<String>,
    seen: Vec<Seen>,
}

type Done = Output<Crawled, CrawlNote>;

impl CrawlStage {
    pub(super) fn new(
        fetcher: Arc<Fetcher>,
        frontier: Arc<dyn Frontier>,
        seen: Arc<dyn SeenUrls>,
        queue: QueueName,
        options: CrawlOptions,
    ) -> Self {
        let (store, term) = (seen.clone(), options.claim);
        let claims = Coalesce::new(MOST_CLAIMS, move |claims: Vec<Claim>| {
            let store = store.clone();
            Box::pin(async move {
                match store.claim(&claims, term).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
                }
            })
        });
        let parse = ParseOptions {
            url: options.links.clone(),
            agent: Some(options.request.identity.robots_token().to_owned()),
            // The index stage computes it, since pages may come from elsewhere.
            without_simhash: true,
            ..ParseOptions::default()
        };
        Self { fetcher, frontier, seen, queue, options, parse, claims, scopes: Mutex::default() }
    }

    async fn crawl(&self, item: Item<CrawlJob>, context: &Context) -> Result<Done, StageError> {
        let id = item.id.as_str();
        let job = item.value;
        let url: NormalUrl = job
            .url
            .parse()
            .map_err(|error| StageError::Permanent { reason: format!("url.invalid: {error}") })?;
        let terms = self.terms(&job.crawl).await?;
        if let Some(done) = self.claim_first(&job, id, context.clock.now()).await? {
            return Ok(done);
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
        let fetched = self.fetcher.fetch(&request).await;
        fail::passed("crawl", CrawlStep::Fetched.name());
        let now = context.clock.now();
        let mark = |url: &str| Seen { url: url.to_owned(), owner: id.to_owned(), ttl: terms.recrawl_after };
        let mut note = CrawlNote { asked: true, ..CrawlNote::default() };
        note.facts.due_again = Some(now + terms.recrawl_after);
        let mut crawled = Crawled {
            crawl: job.crawl.clone(),
            url: job.url.clone(),
            links: Vec::new(),
            canonical: None,
            seen: vec![mark(&job.url)],
        };
        let done = |outcome, detail, crawled, note| Done {
            publish: Vec::new(),
            effect: Some(crawled),
            note,
            outcome,
            detail,
        };
        let fetched = match answer(fetched, &context.clock)? {
            Answer::Page(fetched) => fetched,
            Answer::Unchanged(fetched) => {
                note.facts.fetched = true;
                note.facts.validators = kept(&fetched, job.validators);
                return Ok(done("unchanged", None, crawled, note));
            }
            Answer::Nothing { outcome, detail, asked } => {
                note.asked = asked;
                note.facts.fetched = asked;
                return Ok(done(outcome, Some(detail), crawled, note));
            }
        };
        note.facts.fetched = true;
        if fetched.url != url {
            if let Err(why) = terms.scope.has(&fetched.url) {
                let detail = format!("redirected to {}: {why}", fetched.url);
                return Ok(done("out_of_scope", Some(detail), crawled, note));
            }
            if !self.claim_target(&fetched.url, id).await? {
                let detail = format!("redirected to {}, which has an item of its own", fetched.url);
                return Ok(done("redirected", Some(detail), crawled, note));
            }
            crawled.seen.push(mark(fetched.url.as_str()));
        }
        note.facts.validators = kept(&fetched, frontier::Validators::default());
        let page = self.read(&fetched).await?;
        let robots = page.robots.or(header_robots(&fetched, self.options.request.identity.robots_token()));
        let kind = Scope::kind(&fetched.url);
        let from = From { kind: &kind, depth: job.depth, chain: job.chain };
        let sorted = links::sort(page.links, &terms.scope, from, id, robots.nofollow, now.civil().0);
        let told = sorted.told();
        crawled.links = sorted.followed;
        if let Some(canonical) = page.canonical
            && canonical != fetched.url
            && canonical != url
            && !job.insist
            && terms.scope.has(&canonical).is_ok()
        {
            let detail = format!("names {canonical} as its proper URL");
            crawled.links.push(new_url(canonical.clone(), job.depth, job.chain, Some(id)));
            note.facts.canonical = Some(canonical.as_str().to_owned());
            crawled.canonical = Some(canonical.into_string());
            return Ok(done("canonical_elsewhere", Some(detail), crawled, note));
        }
        if robots.noindex && !self.options.publish_noindex {
            return Ok(done("noindex", told, crawled, note));
        }
        let message = PageMessage {
            url: fetched.url.as_str().to_owned(),
            text: index_text(&page.text),
            metadata: Metadata {
                title: page.title,
                description: page.description,
                timestamp: now.to_iso(),
                status_code: i64::from(fetched.status.as_u16()),
            },
        };
        // Nothing in the message can fail to be written.
        let body = serde_json::to_vec(&message).unwrap_or_default();
        let mut done = done("published", told, crawled, note);
        done.publish.push(Outgoing::to_queue(&self.queue, body).id(item.id.clone()));
        Ok(done)
    }

    /// Claims the URL. What need not be crawled is done already.
    async fn claim_first(
        &self,
        job: &CrawlJob,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Done>, StageError> {
        let (owner, until) = match self.claim(&job.url, id).await? {
            Claimed::Ours => return Ok(None),
            Claimed::Seen { owner, until } => (owner, until),
            Claimed::Taken { owner, until } => {
                let until = until.min(now + SOMEBODY_ELSE);
                return Err(StageError::NotYet { until, why: format!("item {owner} is at it").into() });
            }
        };
        if job.insist && owner == id {
            // Seen by ourselves, when it was left out for another URL. This time it is wanted.
            self.seen.forget(std::slice::from_ref(&job.url)).await?;
            self.claim(&job.url, id).await?;
            return Ok(None);
        }
        let mut done = Done::nothing("seen");
        done.detail = Some(format!("crawled lately by item {owner}, again from {}", until.to_iso()));
        done.note.facts.due_again = Some(until);
        Ok(Some(done))
    }

    /// Claims what a redirect led to. Says false if it is somebody else's.
    async fn claim_target(&self, url: &NormalUrl, id: &str) -> Result<bool, StageError> {
        Ok(match self.claim(url.as_str(), id).await? {
            Claimed::Ours => true,
            Claimed::Seen { owner, .. } | Claimed::Taken { owner, .. } => owner == id,
        })
    }

    async fn claim(&self, url: &str, id: &str) -> Result<Claimed, StageError> {
        let claim = Claim { url: url.to_owned(), owner: id.to_owned() };
        match self.claims.ask(claim).await {
            Some(answer) => Ok(answer?),
            None => Err(StageError::Ours { error: "the store gave no answer to a claim".to_owned() }),
        }
    }

    async fn read(&self, fetched: &Fetched) -> Result<Page, StageError> {
        let content_type = fetched.content_type().map(str::to_owned);
        if fetched.body.len() < LARGE {
            return Ok(parse_bytes(&fetched.body, content_type.as_deref(), &fetched.url, &self.parse));
        }
        let (body, url, options) = (fetched.body.clone(), fetched.url.clone(), self.parse.clone());
        tokio::task::spawn_blocking(move || parse_bytes(&body, content_type.as_deref(), &url, &options))
            .await
            .map_err(|error| StageError::Transient {
                after: None,
                error: format!("reading the page: {error}"),
            })
    }

    /// What the item's crawl asks for.
    async fn terms(&self, crawl: &CrawlId) -> Result<Arc<Terms>, StageError> {
        let lock = || self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(terms) = lock().get(crawl) {
            return Ok(terms.clone());
        }
        let stored = self.frontier.crawl(crawl).await?;
        let definition: Option<Definition> =
            stored.and_then(|crawl| serde_json::from_str(&crawl.definition).ok());
        let Some(definition) = definition else {
            let reason = format!("the crawl `{crawl}` of this item is unknown, or of a newer version");
            return Err(StageError::Permanent { reason });
        };
        let terms =
            Arc::new(Terms { scope: Scope::new(&definition), recrawl_after: definition.recrawl_after });
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

    /// Two pages that each name the other as the proper one would both be left out: one of them is wanted after all.
    async fn settle_canonical_loops(&self, effects: &[&Crawled]) -> Result<(), EffectError> {
        for effect in effects {
            let Some(canonical) = &effect.canonical else { continue };
            let together = effects.iter().any(|other| {
                other.crawl == effect.crawl
                    && other.url == *canonical
                    && other.canonical.as_ref() == Some(&effect.url)
                    && effect.url < other.url
            });
            let before = || async {
                let entries = self.frontier.find(canonical).await?;
                Ok::<_, EffectError>(entries.iter().any(|entry| {
                    entry.crawl == effect.crawl && entry.canonical.as_ref() == Some(&effect.url)
                }))
            };
            if together || before().await? {
                self.frontier.insist(&effect.crawl, canonical).await?;
            }
        }
        Ok(())
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
        join_all(batch.into_iter().map(|item| self.crawl(item, context))).await
    }

    async fn after_publish(&self, effects: &[&Crawled], _context: &Context) -> Result<(), EffectError> {
        self.store_links(effects).await?;
        self.settle_canonical_loops(effects).await?;
        fail::passed("crawl", CrawlStep::LinksStored.name());
        let seen: Vec<Seen> = effects.iter().flat_map(|effect| effect.seen.iter().cloned()).collect();
        self.seen.mark(&seen).await?;
        fail::passed("crawl", CrawlStep::MarkedSeen.name());
        Ok(())
    }
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
