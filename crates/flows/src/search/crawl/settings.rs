//! Settings of crawls, cached by revision.

use super::super::{
    Definition, DefinitionState,
    definition::update_definition,
    rescan::rescan,
    scope::{OUT_OF_HOSTS, Scope},
    source::CrawlJob,
};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_flow::StageError;
use crawlway_store::{CrawlId, Frontier};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Maximum number of cached crawls.
const MAX_CACHED: usize = 1_000;

/// Settings of a crawl, ready to use.
#[derive(Debug)]
pub(super) struct CrawlSettings {
    pub(super) revision: u64,
    pub(super) scope: Scope,
    pub(super) seeds: HashSet<String>,
    pub(super) recrawl_after: Duration,
    /// Creation time of the crawl.
    pub(super) created_at: Timestamp,
    pub(super) state: DefinitionState,
}

impl CrawlSettings {
    /// Age from which on the seen mark of this URL is ignored.
    pub(super) fn max_age(&self, url: &str, now: Timestamp) -> Duration {
        let since = |time: u64| now.since(Timestamp::from_millis(time));
        let mut age =
            self.state.fresh_since.map_or(self.recrawl_after, |time| since(time).min(self.recrawl_after));
        if self.seeds.contains(url) {
            age = age.min(since(self.state.seeds_given_at));
        }
        age
    }
}

/// Cache of the settings of all crawls of this process.
#[derive(Debug)]
pub(super) struct SettingsCache {
    frontier: Arc<dyn Frontier>,
    cached: Mutex<HashMap<CrawlId, Arc<CrawlSettings>>>,
}

impl SettingsCache {
    pub(super) fn new(frontier: Arc<dyn Frontier>) -> Self {
        Self { frontier, cached: Mutex::default() }
    }

    /// Settings of a crawl, of this revision or a later one.
    pub(super) async fn get(&self, crawl: &CrawlId, revision: u64) -> Result<Arc<CrawlSettings>, StageError> {
        if let Some(settings) = self.cached.lock().get(crawl)
            && settings.revision >= revision
        {
            return Ok(settings.clone());
        }
        let Some(stored) = self.frontier.crawl(crawl).await? else {
            let reason = format!("the crawl `{crawl}` of this item was deleted");
            return Err(StageError::Permanent { reason });
        };
        // Workers of the newer version may run beside this one, and can crawl its URLs.
        let newer = |error: serde_json::Error| StageError::Unavailable {
            error: format!(
                "the settings of crawl `{crawl}` are of a newer version, whose workers have to crawl it; upgrade this \
                 worker: {error}"
            ),
        };
        let definition: Definition = serde_json::from_str(&stored.definition).map_err(newer)?;
        let settings = Arc::new(CrawlSettings {
            revision: stored.revision,
            scope: Scope::new(&definition),
            seeds: definition.seeds.into_iter().collect(),
            recrawl_after: definition.recrawl_after,
            created_at: stored.created_at,
            state: definition.state,
        });
        let mut cached = self.cached.lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(crawl.clone(), settings.clone());
        Ok(settings)
    }

    /// Adds the host that a seed redirects to to the scope of its crawl. Returns the new settings if they changed.
    pub(super) async fn join_host(
        &self,
        settings: &CrawlSettings,
        job: &CrawlJob,
        target: &NormalUrl,
        now: Timestamp,
    ) -> Result<Option<Arc<CrawlSettings>>, StageError> {
        if settings.scope.has(target) != Err(OUT_OF_HOSTS) || !settings.seeds.contains(&job.url) {
            return Ok(None);
        }
        let host = target.host();
        let joined = update_definition(&*self.frontier, &job.crawl, |definition| {
            let hosts = &mut definition.state.joined_hosts;
            if !hosts.iter().any(|joined| joined == host) {
                hosts.push(host.to_owned());
            }
        });
        let Some(definition) = joined.await? else { return Ok(None) };
        tracing::info!(crawl = %job.crawl, seed = job.url, host, "host added to the scope: a seed redirects there");
        rescan(&*self.frontier, &job.crawl, &definition, now).await?;
        // The cached revision is outdated.
        self.get(&job.crawl, settings.revision + 1).await.map(Some)
    }
}
