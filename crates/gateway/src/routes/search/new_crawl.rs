//! Body of `POST /api/crawls`, and its validation.

use crate::{context::CrawlDefaults, inventory::InventoryService, problem::Problem};
use crawlway_clock::{DURATION_SYNTAX, parse_duration};
use crawlway_flows::search::{CrawlRequest, Definition, DefinitionError, DefinitionState};
use crawlway_store::CrawlId;
use serde::Deserialize;
use utoipa::ToSchema;

/// Maximum number of seeds.
const MAX_SEEDS: usize = 10_000;
/// Maximum number of hosts, and of patterns of each kind.
const MAX_RULES: usize = 1_000;

/// Settings of a crawl. An existing crawl of the same name continues with these settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCrawl {
    /// Name: 1 to 64 letters, digits, `-`, `_` or `.`. The default is derived from the seeds, such as `example.org`.
    #[serde(default)]
    #[schema(example = "example.org")]
    name: Option<String>,
    /// Start URLs, 1 to 10,000.
    #[schema(min_items = 1, max_items = 10_000, example = json!(["https://example.org/"]))]
    seeds: Vec<String>,
    /// Allowed hosts, such as `example.org`, `*.example.org` or `example.org:8080`. The default is the hosts of the seeds.
    #[serde(default)]
    #[schema(max_items = 1000)]
    hosts: Vec<String>,
    /// Patterns of which a URL must match one, if there are any. A pattern applies to path and query, or to the whole URL if it
    /// contains `://`; `*` matches anything.
    #[serde(default)]
    #[schema(max_items = 1000)]
    include: Vec<String>,
    /// Patterns of excluded URLs.
    #[serde(default)]
    #[schema(max_items = 1000)]
    exclude: Vec<String>,
    /// Maximum number of links from a seed; null for no limit.
    #[serde(default)]
    max_depth: Option<u32>,
    /// Maximum number of fetched pages, at least 1; null for no limit.
    #[serde(default)]
    #[schema(minimum = 1)]
    max_pages: Option<u64>,
    /// Whether the sitemaps of the seeds' hosts are read, in the background.
    #[serde(default)]
    sitemaps: bool,
    /// Time after which a page is due again, such as `12h` or `7d`. The default is the setting `search.recrawl_after`.
    #[serde(default)]
    #[schema(example = "7d")]
    recrawl_after: Option<String>,
    /// Whether all pages are fetched again, also those that are not due.
    #[serde(default)]
    fresh: bool,
}

impl NewCrawl {
    /// Applies the SSRF guard to literal addresses of seeds, as `POST /api/urls` does.
    pub(super) fn check_addresses(&self, inventory: &InventoryService) -> Result<(), Problem> {
        for (index, seed) in self.seeds.iter().enumerate() {
            if let Some(error) = inventory.refused_address(seed) {
                return Err(error.field(format!("seeds[{index}]")).into());
            }
        }
        Ok(())
    }

    /// Validated crawl.
    pub(super) fn into_request(self, defaults: CrawlDefaults) -> Result<CrawlRequest, Problem> {
        let name = self.name.as_deref().map(CrawlId::new).transpose();
        let name = name.map_err(|error| Problem::invalid(error.to_string()).field("name"))?;
        let fresh = self.fresh;
        Ok(CrawlRequest { name, definition: self.into_definition(defaults)?, fresh, file: None })
    }

    fn into_definition(self, defaults: CrawlDefaults) -> Result<Definition, Problem> {
        if self.seeds.len() > MAX_SEEDS {
            let detail = format!("{} seeds; use at most {MAX_SEEDS} per crawl", self.seeds.len());
            return Err(Problem::invalid(detail).field("seeds"));
        }
        for (field, rules) in [("hosts", &self.hosts), ("include", &self.include), ("exclude", &self.exclude)]
        {
            check_rules(field, rules)?;
        }
        let recrawl_after = match &self.recrawl_after {
            None => defaults.recrawl_after,
            Some(text) => parse_duration(text).ok_or_else(|| {
                Problem::invalid(format!("`{text}` is no duration; expected {DURATION_SYNTAX}"))
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
            state: DefinitionState::default(),
        };
        definition.checked().map_err(|error| {
            let field = match &error {
                DefinitionError::NoSeeds | DefinitionError::SeedOutOfScope { .. } => "seeds".to_owned(),
                DefinitionError::Seed { seed, .. } => {
                    let index = seeds.iter().position(|given| given == seed).unwrap_or_default();
                    format!("seeds[{index}]")
                }
                DefinitionError::Zero(_) => "max_pages".to_owned(),
                DefinitionError::Host { .. } => "hosts".to_owned(),
            };
            Problem::invalid(error.to_string()).field(field)
        })
    }
}

fn check_rules(field: &str, rules: &[String]) -> Result<(), Problem> {
    if rules.len() > MAX_RULES {
        let detail = format!("{} entries; use at most {MAX_RULES}", rules.len());
        return Err(Problem::invalid(detail).field(field));
    }
    for (index, rule) in rules.iter().enumerate() {
        let detail = if rule.trim().is_empty() {
            "is empty and would match nothing; remove it".to_owned()
        } else if field == "hosts" && rule.contains(['/', '@', ' ']) {
            format!("`{rule}` is no host; expected a name such as `example.org` or `*.example.org`")
        } else {
            continue;
        };
        return Err(Problem::invalid(detail).field(format!("{field}[{index}]")));
    }
    Ok(())
}
