//! Definition of a crawl: its settings, stored as JSON.

use super::{
    Traps,
    scope::{HostRule, Scope},
};
use crawlway_content::NormalUrl;
use crawlway_store::{CrawlId, Frontier, StoreError, Ticket, frontier::NewSettings};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Definition of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Seed URLs in normal form.
    pub seeds: Vec<String>,
    /// Whether the sitemaps of the seed hosts are read.
    #[serde(default)]
    pub sitemaps: bool,
    /// Hosts in the scope, such as `example.org`, `*.example.org` or `example.org:8080`. Empty means the seed
    /// hosts.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Patterns of which a URL must match one, if there are any.
    #[serde(default)]
    pub include: Vec<String>,
    /// Patterns of which a URL must match none.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Maximum number of links from a seed to a page.
    #[serde(default)]
    pub max_depth: Option<u32>,
    /// Maximum number of pages to fetch.
    #[serde(default)]
    pub max_pages: Option<u64>,
    /// Age from which on a page is crawled again.
    pub recrawl_after: Duration,
    /// Limits against crawler traps.
    #[serde(default)]
    pub traps: Traps,
    /// State that the program keeps with the definition.
    #[serde(default)]
    pub state: DefinitionState,
}

/// State that is stored with the definition of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DefinitionState {
    /// Hosts that joined the scope because a seed redirects there.
    pub joined_hosts: Vec<String>,
    /// Time of the last start, in milliseconds since 1970. Earlier seen marks of seeds are ignored.
    pub seeds_given_at: u64,
    /// Time in milliseconds since 1970 before which all seen marks are ignored.
    pub fresh_since: Option<u64>,
    /// Whether a rescan after a scope change is incomplete.
    pub rescan: bool,
    /// Whether pages were exported to a file, so that the index may lack them.
    pub not_indexed: bool,
    /// Time in milliseconds since 1970 from which on seen marks have the current `recrawl_after` as TTL; earlier ones may
    /// expire sooner.
    pub marked_since: u64,
    /// Whether requested sitemaps are not all read.
    pub sitemaps_unread: bool,
    /// Hashes of the URLs of sitemaps already read, until all are.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub sitemaps_read: BTreeSet<u64>,
}

/// Problem of a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// There is no seed.
    #[error("a crawl needs at least one URL to begin with")]
    NoSeeds,
    /// A seed is out of scope.
    #[error(
        "the seed `{seed}` is out of the crawl's own scope ({reason}); widen the scope or leave the seed out"
    )]
    SeedOutOfScope {
        /// The seed.
        seed: String,
        /// Reason.
        reason: &'static str,
    },
    /// A seed is not a valid URL.
    #[error("the seed `{seed}`: {problem}")]
    Seed {
        /// The seed.
        seed: String,
        /// Problem.
        problem: String,
    },
    /// A host rule is invalid.
    #[error("the host `{host}`: {problem}")]
    Host {
        /// The host.
        host: String,
        /// Problem.
        problem: String,
    },
    /// A limit is 0.
    #[error("{0} is 0, so that nothing would be crawled; use 1 or more, or no limit")]
    Zero(&'static str),
}

impl Definition {
    /// Definition with these seeds: their hosts, no limits, and a re-crawl after a day.
    pub fn of_seeds<S: Into<String>>(seeds: impl IntoIterator<Item = S>) -> Self {
        Self {
            seeds: seeds.into_iter().map(Into::into).collect(),
            sitemaps: false,
            hosts: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            max_depth: None,
            max_pages: None,
            recrawl_after: Duration::from_secs(24 * 60 * 60),
            traps: Traps::default(),
            state: DefinitionState::default(),
        }
    }

    /// Normalises seeds and hosts, or returns the problem.
    pub fn checked(mut self) -> Result<Self, DefinitionError> {
        if self.seeds.is_empty() {
            return Err(DefinitionError::NoSeeds);
        }
        if self.max_pages == Some(0) {
            return Err(DefinitionError::Zero("the page limit"));
        }
        for seed in &mut self.seeds {
            let normal: Result<NormalUrl, _> = seed.parse();
            let normal = normal
                .map_err(|error| DefinitionError::Seed { seed: seed.clone(), problem: error.to_string() })?;
            *seed = Scope::tidy(normal).into_string();
        }
        for host in &mut self.hosts {
            let rule = HostRule::new(host)
                .map_err(|problem| DefinitionError::Host { host: host.clone(), problem })?;
            *host = rule.to_string();
        }
        let scope = Scope::new(&self);
        for seed in &self.seeds {
            if let Ok(url) = seed.parse::<NormalUrl>()
                && let Err(why) = scope.has(&url)
            {
                return Err(DefinitionError::SeedOutOfScope { seed: seed.clone(), reason: why });
            }
        }
        Ok(self)
    }

    /// Default name of the crawl: the host of its first seed, with a hash of all seeds unless the start page of that host is
    /// the only one. The order of the seeds and the other settings do not matter.
    pub fn default_name(&self) -> CrawlId {
        let mut seeds: Vec<&str> = self.seeds.iter().map(String::as_str).collect();
        seeds.sort_unstable();
        let first = seeds.first().copied().unwrap_or_default();
        let rest = first.split_once("://").map_or(first, |(_, rest)| rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let host: String = authority.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        let host: String = host.trim_matches(['-', '.']).chars().take(50).collect();
        let host = if host.is_empty() { "crawl" } else { &host };
        let is_start_page = seeds.len() == 1 && path.is_empty() && authority.len() <= 50;
        let hash = Ticket::of(&seeds.join("\n")).as_u128() as u32;
        let name = if is_start_page { host.to_owned() } else { format!("{host}-{hash:08x}") };
        // Cannot fail: at most 59 allowed characters.
        CrawlId::new(&name).unwrap_or_else(|_| unreachable!())
    }

    /// Whether both definitions have the same scope.
    pub fn has_same_scope(&self, other: &Self) -> bool {
        let scope = |of: &Self| {
            let hosts =
                if of.hosts.is_empty() { of.seed_hosts() } else { of.hosts.iter().cloned().collect() };
            (hosts, of.include.clone(), of.exclude.clone(), of.max_depth, of.traps)
        };
        scope(self) == scope(other)
    }

    fn seed_hosts(&self) -> BTreeSet<String> {
        let urls = self.seeds.iter().filter_map(|seed| seed.parse::<NormalUrl>().ok());
        urls.map(|seed| seed.host().to_owned()).collect()
    }

    /// Stored form.
    pub fn to_json(&self) -> String {
        // Cannot fail: all fields are serialisable.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Applies a change to the stored definition of a crawl by compare-and-swap. Returns the changed definition; `None` if the
/// crawl does not exist, or its definition is of a newer version.
pub(super) async fn update_definition(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    change: impl Fn(&mut Definition),
) -> Result<Option<Definition>, StoreError> {
    loop {
        let Some(stored) = frontier.crawl(crawl).await? else { return Ok(None) };
        let Ok(mut definition) = serde_json::from_str::<Definition>(&stored.definition) else {
            return Ok(None);
        };
        let before = definition.clone();
        change(&mut definition);
        if definition == before {
            return Ok(Some(definition));
        }
        let new = NewSettings {
            expected_revision: stored.revision,
            definition: definition.to_json(),
            max_pages: definition.max_pages,
        };
        if frontier.update_settings(crawl, &new).await?.is_some() {
            return Ok(Some(definition));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_checked_and_its_seeds_are_normalised() {
        let good = Definition::of_seeds(["HTTP://A.test:80/x#y"]).checked().unwrap();
        assert_eq!(good.seeds, ["http://a.test/x"]);
        let session = Definition::of_seeds(["http://a.test/x?PHPSESSID=0a1b2c"]).checked().unwrap();
        assert_eq!(session.seeds, ["http://a.test/x"], "without its session id");
        let mut hosts = Definition::of_seeds(["http://bücher.test/"]);
        hosts.hosts = vec!["BÜCHER.test".into()];
        assert_eq!(hosts.clone().checked().unwrap().hosts, ["xn--bcher-kva.test"]);
        hosts.hosts.push("https://a.test/".into());
        let error = hosts.checked().unwrap_err().to_string();
        assert!(error.contains("the host `https://a.test/`: expected a host such as"), "{error}");
        let none: [&str; 0] = [];
        assert_eq!(Definition::of_seeds(none).checked(), Err(DefinitionError::NoSeeds));
        for (seed, part) in [("mailto:x@y.z", "mailto"), ("", "seed ``")] {
            let error = Definition::of_seeds([seed]).checked().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let mut outside = Definition::of_seeds(["http://a.test/"]);
        outside.hosts = vec!["b.test".into()];
        let error = outside.checked().unwrap_err().to_string();
        assert!(error.contains("`http://a.test/`") && error.contains("scope.host"), "{error}");
    }

    #[test]
    fn a_crawl_is_named_after_its_seeds_alone() {
        let name = |seeds: &[&str]| Definition::of_seeds(seeds.iter().copied()).default_name().to_string();
        assert_eq!(name(&["https://example.org/"]), "example.org");
        assert_eq!(name(&["http://127.0.0.1:8080/"]), "127.0.0.1-8080");
        assert_eq!(name(&["http://[::1]:81/"]), "1--81");
        let deeper = name(&["https://example.org/docs/"]);
        assert!(deeper.starts_with("example.org-") && deeper.len() == "example.org-".len() + 8, "{deeper}");
        assert_ne!(deeper, name(&["https://example.org/blog/"]));
        assert_eq!(name(&["https://b.org/", "https://a.org/"]), name(&["https://a.org/", "https://b.org/"]));
        let long = format!("https://{}.org/", "a.".repeat(100));
        assert!(name(&[&long]).len() <= 64);
        let limited = Definition { max_pages: Some(3), ..Definition::of_seeds(["https://example.org/"]) };
        assert_eq!(limited.default_name().as_str(), "example.org", "settings may change");
        let stored: Definition = serde_json::from_str(&limited.to_json()).unwrap();
        assert_eq!(stored, limited);
    }

    #[test]
    fn a_definition_of_the_previous_release_is_read() {
        let stored = r#"{"seeds":["http://a.test/"],"sitemaps":false,"hosts":[],"include":[],"exclude":[],"max_depth":null,
            "max_pages":20,"recrawl_after":{"secs":86400,"nanos":0}}"#;
        let definition: Definition = serde_json::from_str(stored).unwrap();
        assert_eq!(definition.state, DefinitionState::default());
        assert!(definition.has_same_scope(&Definition::of_seeds(["http://a.test/"])));
    }
}
