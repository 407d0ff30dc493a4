//! What a body of `POST /api/crawls` asks for, and what is wrong with it.

use crate::{inventory::Inventory, parts::CrawlDefaults, problem::Problem};
use crawlway_clock::{DURATION, parse_duration};
use crawlway_flows::search::{Asked, Definition, DefinitionError, TermsState};
use crawlway_store::CrawlId;
use serde::Deserialize;
use utoipa::ToSchema;

/// The most seeds of one crawl.
const MOST_SEEDS: usize = 10_000;
/// The most hosts and the most patterns of each kind.
const MOST_RULES: usize = 1_000;

/// What a crawl is asked to do. Sent again under the same name it goes on with the same crawl, on the terms given now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCrawl {
    /// Its name: 1 to 64 letters, digits, `-`, `_` or `.`. The default is made from the seeds alone, such as
    /// `example.org`.
    #[serde(default)]
    #[schema(example = "example.org")]
    name: Option<String>,
    /// Where it begins: 1 to 10,000 URLs.
    #[schema(min_items = 1, max_items = 10_000, example = json!(["https://example.org/"]))]
    seeds: Vec<String>,
    /// The hosts that it may visit, such as `example.org`, `*.example.org` or `example.org:8080`. None means those of the
    /// seeds.
    #[serde(default)]
    #[schema(max_items = 1000)]
    hosts: Vec<String>,
    /// Patterns of which a URL must fit one, if there are any. A pattern is about path and query, or about the whole
    /// URL if it has `://` in it; `*` stands for anything.
    #[serde(default)]
    #[schema(max_items = 1000)]
    include: Vec<String>,
    /// Patterns of which a URL must fit none.
    #[serde(default)]
    #[schema(max_items = 1000)]
    exclude: Vec<String>,
    /// How many links away from a seed it goes; null for any number.
    #[serde(default)]
    max_depth: Option<u32>,
    /// How many pages it fetches, at least 1; null for any number.
    #[serde(default)]
    #[schema(minimum = 1)]
    max_pages: Option<u64>,
    /// Whether the sitemaps of the seeds' hosts are read too, in the background.
    #[serde(default)]
    sitemaps: bool,
    /// How long a page need not be crawled again: a text such as `12h` or `7d`, as in the settings. The default is that
    /// of the settings, `search.recrawl_after`.
    #[serde(default)]
    #[schema(example = "7d")]
    recrawl_after: Option<String>,
    /// Whether everything is fetched again, whatever was fetched lately.
    #[serde(default)]
    fresh: bool,
}

impl NewCrawl {
    /// Refuses seeds with an address that must not be asked, as `POST /api/urls` does.
    pub(super) fn check_addresses(&self, inventory: &Inventory) -> Result<(), Problem> {
        for (place, seed) in self.seeds.iter().enumerate() {
            if let Some(problem) = inventory.refused_address(seed) {
                return Err(problem.field(format!("seeds[{place}]")));
            }
        }
        Ok(())
    }

    /// The crawl that is asked for, checked.
    pub(super) fn into_asked(self, defaults: CrawlDefaults) -> Result<Asked, Problem> {
        let name = self.name.as_deref().map(CrawlId::new).transpose();
        let name = name.map_err(|error| Problem::invalid(error.to_string()).field("name"))?;
        let fresh = self.fresh;
        Ok(Asked { name, definition: self.into_definition(defaults)?, fresh, file: None })
    }

    fn into_definition(self, defaults: CrawlDefaults) -> Result<Definition, Problem> {
        if self.seeds.len() > MOST_SEEDS {
            let problem = format!(
                "{} seeds are too many; use at most {MOST_SEEDS}, and several crawls for more",
                self.seeds.len()
            );
            return Err(Problem::invalid(problem).field("seeds"));
        }
        for (field, rules) in [("hosts", &self.hosts), ("include", &self.include), ("exclude", &self.exclude)]
        {
            check_rules(field, rules)?;
        }
        let recrawl_after = match &self.recrawl_after {
            None => defaults.recrawl_after,
            Some(text) => parse_duration(text).ok_or_else(|| {
                Problem::invalid(format!("`{text}` is no duration; expected {DURATION}"))
                    .field("recrawl_after")
            })?,
        };
        let seeds = self.seeds.clone();
        let definition = Definition {
            seeds: self.seeds,
            sitemaps: self.sitemaps,
            hosts: self.hosts,
            include: self.include,
            exclude: self.exclude,
            max_depth: self.max_depth,
            max_pages: self.max_pages,
            recrawl_after,
            traps: defaults.traps,
            state: TermsState::default(),
        };
        definition.checked().map_err(|error| {
            let field = match &error {
                DefinitionError::NoSeeds | DefinitionError::SeedOutOfScope { .. } => "seeds".to_owned(),
                DefinitionError::Seed { seed, .. } => {
                    let place = seeds.iter().position(|given| given == seed).unwrap_or_default();
                    format!("seeds[{place}]")
                }
                DefinitionError::Zero(_) => "max_pages".to_owned(),
                DefinitionError::Host { .. } => "hosts".to_owned(),
            };
            Problem::invalid(error.to_string()).field(field)
        })
    }
}

fn check_rules(field: &str, rules: &[String]) -> Result<(), Problem> {
    if rules.len() > MOST_RULES {
        let problem = format!("{} are too many; use at most {MOST_RULES}", rules.len());
        return Err(Problem::invalid(problem).field(field));
    }
    for (place, rule) in rules.iter().enumerate() {
        let problem = if rule.trim().is_empty() {
            "it is empty and would fit nothing; leave it out".to_owned()
        } else if field == "hosts" && rule.contains(['/', '@', ' ']) {
            format!("`{rule}` is no host; write only its name, such as `example.org` or `*.example.org`")
        } else {
            continue;
        };
        return Err(Problem::invalid(problem).field(format!("{field}[{place}]")));
    }
    Ok(())
}
