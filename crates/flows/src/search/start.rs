//! Starting a crawl, or going on with one.

use super::{
    Definition, Export, TermsState,
    crawl::{disallowed, new_url},
    rescan::{change_terms, rescan},
};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_store::{
    CrawlId, Frontier, SeenUrls, StoreError,
    frontier::{
        Added, Crawl, CrawlState, EntryFilter, EntryState, NewCrawl, NewTerms, NewUrl, Reopen,
        TOO_MANY_WAITING,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many URLs are added together.
const TOGETHER: usize = 500;

/// A crawl that is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its name; `None` for the one that its seeds give it.
    pub name: Option<CrawlId>,
    /// What it is to do now.
    pub definition: Definition,
    /// Whether everything is fetched again, whatever was fetched lately by this or another crawl.
    pub fresh: bool,
    /// The file that pages go to this time, if they do not go into the index.
    pub file: Option<Arc<Export>>,
}

impl Asked {
    /// A crawl with this definition, under the name that its seeds give it.
    pub fn new(definition: Definition) -> Self {
        Self { name: None, definition, fresh: false, file: None }
    }

    /// Its name.
    pub fn name(&self) -> CrawlId {
        self.name.clone().unwrap_or_else(|| self.definition.default_name())
    }
}

/// A crawl that has been started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The crawl as it is now.
    pub crawl: Crawl,
    /// Whether it is new, or one of before that goes on.
    pub new: bool,
    /// How many URLs were added: seeds, and links that a wider scope takes in.
    pub added: u64,
    /// How many URLs of before wait again: seeds, what is due again, and what had failed.
    pub again: u64,
    /// How many pages of before are left as they are, since they were fetched lately.
    pub recent: u64,
    /// How often its URLs had been done, by outcome, before it was started.
    pub outcomes: BTreeMap<String, u64>,
    /// Whether everything is fetched again because pages of before went to a file, and not into the index.
    pub was_not_indexed: bool,
    /// Whether its sitemaps were asked for and given up before all were read.
    pub sitemaps_unread: bool,
}

/// Starts a crawl, or goes on with the one of this name on the terms that are given now: what it knows stays known, what
/// had failed is tried again, and what is due again is crawled again. Repeating it after a failure is harmless.
///
/// When this returns, the crawl and its seeds are durable. The definition has been checked. Its sitemaps are not read;
/// [`add_sitemaps`](super::add_sitemaps) does that, then or later.
pub async fn begin(
    frontier: &dyn Frontier,
    seen: &dyn SeenUrls,
    asked: &Asked,
) -> Result<Started, StoreError> {
    let now = Timestamp::now();
    let id = asked.name();
    let Opened { crawl: before, new, was_not_indexed } = loop {
        if let Some(opened) = set_terms(frontier, &id, asked, now).await? {
            break opened;
        }
    };
    let definition: Definition = serde_json::from_str(&before.definition).unwrap_or(asked.definition.clone());
    if matches!(before.state, CrawlState::Paused | CrawlState::Cancelled) {
        frontier.set_state(&id, CrawlState::Running).await?;
    }
    let (mut again, crashed) =
        if new { (0, BTreeSet::new()) } else { retry_dead(frontier, &id, asked.fresh).await? };
    let seeds: Vec<NewUrl> = definition
        .seeds
        .iter()
        .filter_map(|seed| seed.parse::<NormalUrl>().ok())
        .map(|seed| NewUrl { in_any_case: true, ..new_url(seed, 0, 0, None) })
        .collect();
    let mut added = add(frontier, &id, &seeds).await?;
    if !new {
        let seeds = definition.seeds.iter().filter(|seed| !crashed.contains(*seed)).cloned().collect();
        again += frontier.reopen(&id, &Reopen::Urls(seeds)).await?;
        if definition.state.rescan {
            added += rescan(frontier, &id, &definition, now).await?;
            change_terms(frontier, &id, |terms| terms.state.rescan &= terms.has_same_scope(&definition))
                .await?;
        }
        again += match asked.fresh || was_not_indexed {
            true => {
                let all = frontier.reopen(&id, &Reopen::All).await?;
                change_terms(frontier, &id, |terms| terms.state.not_indexed = asked.file.is_some()).await?;
                all
            }
            false => {
                let due =
                    frontier.reopen(&id, &Reopen::CrawledBefore(now - definition.recrawl_after)).await?;
                let lacking = Lacking { seen, file: asked.file.as_deref() };
                due + lacking.reopen(frontier, &id, &definition, now).await?
            }
        };
        again += frontier.reopen(&id, &Reopen::Outcome(disallowed().to_owned())).await?;
    }
    let crawl = frontier.crawl(&id).await?.unwrap_or(before.clone());
    let recent = crawl.counts.done.min(before.counts.done);
    Ok(Started {
        crawl,
        new,
        added,
        again,
        recent,
        outcomes: before.counts.outcomes,
        was_not_indexed,
        sitemaps_unread: false,
    })
}

/// Pages that were fetched lately, and are wanted all the same.
struct Lacking<'a> {
    /// The seen store. A page that it no longer knows was deleted there, to be crawled again.
    seen: &'a dyn SeenUrls,
    /// What a file lacks is to be written to it.
    file: Option<&'a Export>,
}

impl Lacking<'_> {
    /// Makes them wait again, and says how many.
    async fn reopen(
        &self,
        frontier: &dyn Frontier,
        id: &CrawlId,
        terms: &Definition,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        if self.file.is_none() && !self.seen.is_open_to_others() {
            return Ok(0);
        }
        let marked_since = (now - terms.recrawl_after).max(Timestamp::from_millis(terms.state.marked_since));
        let done = EntryFilter { state: Some(EntryState::Done), outcome: None };
        let (mut many, mut after) = (0, None);
        loop {
            let page = frontier.entries(id, &done, after, TOGETHER).await?;
            let (mut wanted, mut marked) = (Vec::new(), Vec::new());
            for entry in page.entries {
                let has_page = matches!(entry.outcome.as_deref(), Some("published" | "unchanged" | "seen"));
                if has_page && self.file.is_some_and(|file| !file.has(&entry.url)) {
                    wanted.push(entry.url);
                } else if entry.crawled_at.is_some_and(|at| at > marked_since) {
                    marked.push(entry.url);
                }
            }
            if self.seen.is_open_to_others() {
                let known = self.seen.known(&marked).await?;
                let gone = marked.into_iter().zip(known).filter(|(_, known)| !known);
                wanted.extend(gone.map(|(url, _)| url));
            }
            if !wanted.is_empty() {
                many += frontier.reopen(id, &Reopen::Urls(wanted)).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(many);
            }
        }
    }
}

/// A crawl that was opened.
struct Opened {
    /// As it is then.
    crawl: Crawl,
    /// Whether it is new.
    new: bool,
    /// Whether the index may lack pages of before, and is to get them now.
    was_not_indexed: bool,
}

/// Opens the crawl, or gives the one that exists the terms that are asked for now. `None` if another process changed it
/// meanwhile.
async fn set_terms(
    frontier: &dyn Frontier,
    id: &CrawlId,
    asked: &Asked,
    now: Timestamp,
) -> Result<Option<Opened>, StoreError> {
    let mut definition = asked.definition.clone();
    definition.state = TermsState {
        seeds_given_at: now.as_millis(),
        // What others have put elsewhere lately is wanted in a file, too.
        fresh_since: (asked.fresh || asked.file.is_some()).then_some(now.as_millis()),
        not_indexed: asked.file.is_some(),
        sitemaps_unread: definition.sitemaps,
        ..TermsState::default()
    };
    let Some(stored) = frontier.crawl(id).await? else {
        let new =
            NewCrawl { id: id.clone(), definition: definition.to_json(), max_pages: definition.max_pages };
        let (crawl, is_new) = frontier.open_crawl(&new).await?;
        return Ok(is_new.then_some(Opened { crawl, new: true, was_not_indexed: false }));
    };
    let mut was_not_indexed = false;
    if let Ok(before) = serde_json::from_str::<Definition>(&stored.definition) {
        // What was left out because too many waited is found again in the links of known pages.
        let has_room = frontier.policy().most_waiting(definition.max_pages) > stored.counts.waiting;
        let left_out = stored.counts.left_out.contains_key(TOO_MANY_WAITING);
        definition.state.rescan =
            before.state.rescan || !before.has_same_scope(&definition) || left_out && has_room;
        was_not_indexed = before.state.not_indexed && asked.file.is_none();
        // Until all of it is made to wait again.
        definition.state.not_indexed |= was_not_indexed;
        if was_not_indexed {
            definition.state.fresh_since = Some(now.as_millis());
        }
        // What was to be fetched afresh and was not yet is fetched afresh now.
        definition.state.fresh_since = definition.state.fresh_since.or(before.state.fresh_since);
        // An interrupted start goes on with the sitemaps that it has not read, unless they may have changed since.
        let given_at = Timestamp::from_millis(before.state.seeds_given_at);
        let goes_on = before.state.sitemaps_unread && now.since(given_at) < definition.recrawl_after;
        if goes_on && !definition.state.rescan && !asked.fresh {
            definition.state.sitemaps_read = before.state.sitemaps_read;
        }
        definition.state.joined_hosts = before.state.joined_hosts;
        let is_longer = definition.recrawl_after > before.recrawl_after;
        definition.state.marked_since = if is_longer { now.as_millis() } else { before.state.marked_since };
    }
    let terms = NewTerms {
        replaces: stored.revision,
        definition: definition.to_json(),
        max_pages: definition.max_pages,
    };
    Ok(frontier.set_terms(id, &terms).await?.map(|crawl| Opened { crawl, new: false, was_not_indexed }))
}

/// Makes everything wait again that was given up, and says how many. URLs that crashed their workers stay dead, unless everything is
/// to be fresh, and are told: a supervisor that starts the crawl again and again must not bring them back.
async fn retry_dead(
    frontier: &dyn Frontier,
    id: &CrawlId,
    fresh: bool,
) -> Result<(u64, BTreeSet<String>), StoreError> {
    let (mut many, mut crashed, mut after) = (0, BTreeSet::new(), None);
    loop {
        let dead = frontier.dead(Some(id), after.as_deref(), TOGETHER).await?;
        let (stay, again): (Vec<_>, Vec<_>) =
            dead.urls.into_iter().partition(|url| url.worker_lost && !fresh);
        crashed.extend(stay.into_iter().map(|url| url.url));
        let items: Vec<String> = again.into_iter().map(|url| url.item).collect();
        many += frontier.replay(&items).await?.into_iter().filter(|replayed| *replayed).count() as u64;
        match dead.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if !crashed.is_empty() {
        tracing::warn!(
            crawl = %id,
            pages = crashed.len(),
            "pages that crashed their workers stay dead letters; `crawlway dead replay frontier --cause worker-lost` tries them again"
        );
    }
    Ok((many, crashed))
}

/// Gives crawls of a release before, which were called by a hash of their terms, the names that their seeds give them. Of
/// several with the same seeds the newest has that name, the others keep a part of the hash.
pub async fn name_crawls(frontier: &dyn Frontier) -> Result<(), StoreError> {
    let mut crawls: Vec<Crawl> = Vec::new();
    loop {
        let more = frontier.crawls(crawls.last().map(|crawl| &crawl.id), TOGETHER).await?;
        let is_last = more.len() < TOGETHER;
        crawls.extend(more);
        if is_last {
            break;
        }
    }
    for crawl in crawls {
        let hash = crawl.id.as_str();
        let is_hash = hash.len() == 16 && hash.bytes().all(|octet| octet.is_ascii_hexdigit());
        let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { continue };
        if !is_hash || definition.state.seeds_given_at > 0 {
            continue;
        }
        let name = definition.default_name();
        let short: String = name.as_str().chars().take(55).collect();
        if !frontier.rename_crawl(&crawl.id, &name).await?
            && let Ok(other) = CrawlId::new(&format!("{short}-{}", &hash[..8]))
        {
            frontier.rename_crawl(&crawl.id, &other).await?;
        }
    }
    Ok(())
}

/// Adds URLs in batches, and says how many were new.
pub(super) async fn add(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    urls: &[NewUrl],
) -> Result<u64, StoreError> {
    let mut added = 0;
    for urls in urls.chunks(TOGETHER) {
        let answers = frontier.add(crawl, urls).await?;
        added += answers.iter().filter(|answer| **answer == Added::New).count() as u64;
    }
    Ok(added)
}
