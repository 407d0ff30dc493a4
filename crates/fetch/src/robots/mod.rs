//! robots.txt parser and matcher by RFC 9309, without I/O and clock.
//!
//! Where the RFC is open, it follows Google's published parser:
//!
//! - Only `Allow` and `Disallow` end a run of `User-agent` lines. `Sitemap`, `Crawl-delay`, unknown and empty
//!   lines do not: in `User-agent: a`, `Crawl-delay: 5`, `User-agent: b`, `Disallow: /` the rule is for both.
//! - A rule that starts with neither `/` nor `*` matches nothing, but ends that run.
//! - A group of our token without rules allows everything, whatever the group `*` has.
//! - A missing colon and the common misspellings of the keys are accepted.
//!
//! In addition:
//!
//! - A `Crawl-delay` belongs to the `User-agent` lines directly above it, even if their rules come later.
//!   The longest of several delays for one agent applies.
//! - Product tokens may contain digits, as those of many crawlers do.
//!
//! For a missing or unreachable file, [`Robots::default`] allows everything and [`Robots::closed`] nothing.

mod parse;
mod path;
mod pattern;

use self::{parse::Group, path::TargetPath};
use std::{collections::HashMap, ops::Range, time::Duration};

/// Default product token.
pub const AGENT: &str = "crawlway";

/// Maximum size of a robots.txt; the rest is ignored. RFC 9309 requires at least this much.
pub const MAX_BYTES: usize = 500 * 1024;

/// Maximum `Crawl-delay` that the parser returns: the TTL of a robots.txt. The fetcher honours at most a minute (`robots_cache.rs`).
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Parsed robots.txt. It takes a few times the memory of the file, at most 15 MiB for a hostile one.
#[derive(Debug, Clone, Default)]
pub struct Robots {
    /// Text of the file, to quote the rule that matched.
    source: Box<[u8]>,
    groups: Vec<Group>,
    /// `Crawl-delay` of each block; a block is a run of `User-agent` lines.
    delays: Vec<Option<Duration>>,
    /// Lines of each product token in lower case, and of `*`.
    agents: HashMap<Box<str>, Vec<Mention>>,
    sitemaps: Vec<String>,
}

/// `User-agent` line: its group with the rules, and its block with the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mention {
    group: usize,
    block: usize,
}

/// Decision about one URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the URL may be fetched.
    pub allowed: bool,
    /// Rule that matched; none if no rule matches, or for `/robots.txt`, which is always allowed.
    pub rule: Option<Rule>,
}

/// Rule of a robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Line number, from 1.
    pub line: usize,
    /// Text of the line, trimmed.
    pub text: String,
}

impl Robots {
    /// Parses a robots.txt. Never fails: invalid lines are ignored, and so is everything from the line that crosses
    /// [`MAX_BYTES`].
    pub fn parse(bytes: &[u8]) -> Self {
        parse::robots(bytes)
    }

    /// Rules that disallow everything, as RFC 9309 requires for an unreachable robots.txt.
    pub fn closed() -> Self {
        Self::parse(b"User-agent: *\nDisallow: /")
    }

    /// Whether `agent` may fetch `target`, a URL or its path and query.
    ///
    /// Only the product token of `agent` counts, as in `Crawlway/1.0 (+https://…)`. Percent-encoding of the target
    /// does not matter, but its dot segments must be resolved.
    pub fn check(&self, agent: &str, target: &str) -> Decision {
        let path = TargetPath::new(target);
        if path.is_robots_txt() {
            return Decision { allowed: true, rule: None };
        }
        let mut best: Option<&parse::Rule> = None;
        let mut last_group = None;
        for mention in self.mentions(agent) {
            if last_group.replace(mention.group) == Some(mention.group) {
                continue;
            }
            for rule in &self.groups[mention.group].rules {
                let wins = best.is_none_or(|best| rule.rank() > best.rank());
                if wins && rule.pattern.matches(&path) {
                    best = Some(rule);
                }
            }
        }
        Decision {
            allowed: best.is_none_or(|rule| rule.allows),
            rule: best.map(|rule| Rule { line: rule.line, text: self.text(&rule.source) }),
        }
    }

    /// `Crawl-delay` of `agent`, at most [`MAX_CRAWL_DELAY`].
    pub fn crawl_delay(&self, agent: &str) -> Option<Duration> {
        self.mentions(agent).iter().filter_map(|mention| self.delays[mention.block]).max()
    }

    /// `Sitemap` values verbatim, without duplicates. They apply to every agent.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// Estimate of its memory: contents, and an overhead for each allocation.
    pub(crate) fn memory(&self) -> usize {
        const ALLOCATION_BYTES: usize = 16;
        let text = |length: usize| length + ALLOCATION_BYTES;
        let rules = self.groups.iter().flat_map(|group| &group.rules);
        let patterns: usize =
            rules.map(|rule| rule.pattern.texts().map(|t| text(t.len())).sum::<usize>()).sum();
        let groups: usize =
            self.groups.iter().map(|group| text(size_of_val(group) + size_of_val(&*group.rules))).sum();
        let agents = self.agents.iter().map(|(token, mentions)| {
            text(size_of_val(token) + size_of_val(mentions))
                + text(token.len())
                + text(size_of_val(&**mentions))
        });
        let sitemaps = self.sitemaps.iter().map(|url| text(size_of_val(url) + url.len()));
        text(self.source.len())
            + patterns
            + groups
            + size_of_val(&*self.delays)
            + agents.sum::<usize>()
            + sitemaps.sum::<usize>()
    }

    /// `User-agent` lines that apply to an agent: its own, otherwise those of `*`.
    fn mentions(&self, agent: &str) -> &[Mention] {
        let token = product_token(agent.as_bytes());
        let named = (!token.is_empty()).then(|| self.agents.get(token.as_str())).flatten();
        named.or_else(|| self.agents.get("*")).map_or(&[], Vec::as_slice)
    }

    fn text(&self, range: &Range<usize>) -> String {
        String::from_utf8_lossy(&self.source[range.clone()]).into_owned()
    }
}

/// Product token at the start of a user agent, in lower case; empty if there is none.
fn product_token(agent: &[u8]) -> String {
    agent
        .trim_ascii_start()
        .iter()
        .take_while(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'))
        .map(|octet| char::from(octet.to_ascii_lowercase()))
        .collect()
}
