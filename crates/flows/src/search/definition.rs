//! What a crawl is asked to do. Stored with the crawl, as JSON.

use super::{
    Traps,
    scope::{HostRule, Scope},
};
use crawlway_content::NormalUrl;
use crawlway_store::{CrawlId, Ticket};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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

    /// The id of a crawl that is asked to do this: the same for the same, so that asking again goes on with it.
    pub fn id(&self) -> CrawlId {
        let hash = Ticket::of(&self.to_json()).as_u128();
        // 16 hexadecimal digits are always an id.
        CrawlId::new(&format!("{:016x}", (hash >> 64) as u64 ^ hash as u64))
            .unwrap_or_else(|_| unreachable!())
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
    fn the_same_request_is_the_same_crawl() {
        let definition = Definition::of_seeds(["http://a.test/"]);
        assert_eq!(definition.id(), Definition::of_seeds(["http://a.test/"]).id());
        let other = Definition { max_depth: Some(3), ..Definition::of_seeds(["http://a.test/"]) };
        assert_ne!(definition.id(), other.id());
        let stored: Definition = serde_json::from_str(&definition.to_json()).unwrap();
        assert_eq!(stored, definition);
    }
}
