//! What a crawl is asked to do. Stored with the crawl, as JSON.

use super::{
    Traps,
    scope::{HostRule, Scope},
};
use crawlway_content::NormalUrl;
use crawlway_store::{CrawlId, Ticket};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// What a crawl is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Where it begins: URLs in normal form.
    pub seeds: Vec<String>,
    /// Whether the sitemaps of the seeds' hosts are read too.
    #[serde(default)]
    pub sitemaps: bool,
    /// The hosts that it may visit, such as `example.org`, `*.example.org` or `example.org:8080`. None means those of
    /// the seeds.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Patterns of which a URL must fit one, if there are any.
    #[serde(default)]
    pub include: Vec<String>,
    /// Patterns of which a URL must fit none.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How many links away from a seed it goes.
    #[serde(default)]
    pub max_depth: Option<u32>,
    /// How many pages it fetches.
    #[serde(default)]
    pub max_pages: Option<u64>,
    /// How long a page need not be crawled again.
    pub recrawl_after: Duration,
    /// How much is put up with from sites that make up URLs without end.
    #[serde(default)]
    pub traps: Traps,
    /// What the program has found out or been told since.
    #[serde(default)]
    pub state: TermsState,
}

/// What is kept with the terms of a crawl beside what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TermsState {
    /// Hosts that are in the scope because a seed redirects there.
    pub joined_hosts: Vec<String>,
    /// When the seeds were last given, in milliseconds since 1970: what was seen before does not count for them.
    pub seeds_given_at: u64,
    /// What was seen before this time does not count for any URL, in milliseconds since 1970.
    pub fresh_since: Option<u64>,
    /// The scope has changed, and the links of known pages have not all been looked at under the new one.
    pub rescan: bool,
    /// Pages were written to a file instead of the index, so that the index may lack them.
    pub not_indexed: bool,
    /// Since when pages are marked as seen for as long as the terms say now, in milliseconds since 1970: those of before may be
    /// forgotten earlier.
    pub marked_since: u64,
    /// The sitemaps were asked for, and have not all been read.
    pub sitemaps_unread: bool,
    /// Which of them have been, by a hash of their URLs, until all are.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub sitemaps_read: BTreeSet<u64>,
}

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// Nothing to begin with.
    #[error("a crawl needs at least one URL to begin with")]
    NoSeeds,
    /// A seed is outside of the scope, so that nothing would come of it.
    #[error(
        "the seed `{seed}` is out of the crawl's own scope ({why}); widen the scope or leave the seed out"
    )]
    SeedOutOfScope {
        /// The seed.
        seed: String,
        /// Why it is.
        why: &'static str,
    },
    /// A seed is no URL.
    #[error("the seed `{seed}`: {problem}")]
    Seed {
        /// The seed.
        seed: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A host is no host.
    #[error("the host `{host}`: {problem}")]
    Host {
        /// The host.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A limit is 0.
    #[error("{0} is 0, so that nothing would be crawled; use 1 or more, or no limit")]
    Zero(&'static str),
}

impl Definition {
    /// A crawl of the hosts of these seeds, without limits, each page once a day at most.
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
            state: TermsState::default(),
        }
    }

    /// Brings seeds and hosts into normal form, and says what is wrong if something is.
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
                return Err(DefinitionError::SeedOutOfScope { seed: seed.clone(), why });
            }
        }
        Ok(self)
    }

    /// The name of a crawl that was given none: the host of its first seed, and unless that host's start page is the only
    /// seed, a hash of all seeds. The order of the seeds does not matter, nor do any other terms.
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
        // Made of allowed characters, 59 at most.
        CrawlId::new(&name).unwrap_or_else(|_| unreachable!())
    }

    /// Whether the same URLs are in the scope of both, whatever else was asked for.
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

    /// The definition as it is stored.
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_checked_and_its_seeds_are_brought_into_normal_form() {
        let good = Definition::of_seeds(["HTTP://A.test:80/x#y"]).checked().unwrap();
        assert_eq!(good.seeds, ["http://a.test/x"]);
        let session = Definition::of_seeds(["http://a.test/x?PHPSESSID=0a1b2c"]).checked().unwrap();
        assert_eq!(session.seeds, ["http://a.test/x"], "a session is nobody else's");
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
        assert_eq!(limited.default_name().as_str(), "example.org", "terms may change");
        let stored: Definition = serde_json::from_str(&limited.to_json()).unwrap();
        assert_eq!(stored, limited);
    }

    #[test]
    fn what_the_release_before_has_stored_is_read() {
        let stored = r#"{"seeds":["http://a.test/"],"sitemaps":false,"hosts":[],"include":[],"exclude":[],"max_depth":null,
            "max_pages":20,"recrawl_after":{"secs":86400,"nanos":0}}"#;
        let definition: Definition = serde_json::from_str(stored).unwrap();
        assert_eq!(definition.state, TermsState::default());
        assert!(definition.has_same_scope(&Definition::of_seeds(["http://a.test/"])));
    }
}
