//! What a site lets us fetch: robots.txt by RFC 9309. Bytes in, answers out; no I/O, no clock.
//!
//! Where the RFC leaves room, this does what the parser that Google published does:
//!
//! - Only `Allow` and `Disallow` end a run of `User-agent` lines. `Sitemap`, `Crawl-delay`, unknown and empty
//!   lines do not, so in `User-agent: a`, `Crawl-delay: 5`, `User-agent: b`, `Disallow: /` both are shut out.
//! - A rule that starts with neither `/` nor `*` can match nothing, but it is a rule: it ends that run.
//! - A group that names us counts even if it has no rules; then all is allowed, whatever `*` says.
//! - A missing colon and the common misspellings of the keys are accepted.
//!
//! Besides, and always towards politeness:
//!
//! - A `Crawl-delay` belongs to the `User-agent` lines directly above it, even if their rules come later.
//!   Of several delays for one agent the longest holds.
//! - Product tokens may contain digits, which the RFC leaves out and many crawlers have.
//!
//! What a missing or unreachable robots.txt means is for whoever fetches it: [`Robots::default`] allows
//! everything, [`Robots::closed`] nothing.

mod normal;
mod parse;
mod pattern;

use self::{normal::Address, parse::Group};
use std::{collections::HashMap, ops::Range, time::Duration};

/// The product token of this program, which a site names to give it rules of its own.
pub const AGENT: &str = "crawlway";

/// How much of a robots.txt counts: the least that RFC 9309 allows, and as much as the big engines read.
pub const MAX_BYTES: usize = 500 * 1024;

/// The longest `Crawl-delay`. A robots.txt is read anew after a day, so no delay can mean more than that.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A robots.txt that has been read.
///
/// It takes a few times as much memory as the file, and not more than some 15 MiB for a file made to hurt.
#[derive(Debug, Clone, Default)]
pub struct Robots {
    /// What counts of the file, for telling the line that decided.
    source: Box<[u8]>,
    groups: Vec<Group>,
    /// The delay of each block, which is a run of `User-agent` lines without anything for them in between.
    delays: Vec<Option<Duration>>,
    /// Product tokens in lower case, and `*`, with the places that name them.
    agents: HashMap<Box<str>, Vec<Mention>>,
    sitemaps: Vec<String>,
}

/// A `User-agent` line: the group whose rules it takes part in, and the block whose delay it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mention {
    group: usize,
    block: usize,
}

/// Whether a URL may be fetched, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the URL may be fetched.
    pub allowed: bool,
    /// The line that decided; none if no rule matches, or for `/robots.txt` itself, which is always allowed.
    pub rule: Option<Rule>,
}

/// A line of a robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands, counted from 1.
    pub line: usize,
    /// The line as it stands in the file, without white space around it.
    pub text: String,
}

impl Robots {
    /// Reads a robots.txt. Whatever the bytes are, what can be understood counts and the rest is ignored;
    /// so is what lies beyond [`MAX_BYTES`], together with a line that is cut there.
    pub fn parse(bytes: &[u8]) -> Self {
        parse::robots(bytes)
    }

    /// The rules of a site that allows nothing, as RFC 9309 has it for a robots.txt that cannot be reached.
    pub fn closed() -> Self {
        Self::parse(b"User-agent: *\nDisallow: /")
    }

    /// Whether `agent` may fetch `target`, which is a whole URL or its path and query.
    ///
    /// Of `agent` only the product token counts, as of `Crawlway/1.0 (+https://…)`. The target's
    /// percent-encoding does not matter, but its dot segments should have been resolved.
    pub fn check(&self, agent: &str, target: &str) -> Decision {
        let address = Address::new(target);
        if address.is_robots_txt() {
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
                if wins && rule.pattern.matches(&address) {
                    best = Some(rule);
                }
            }
        }
        Decision {
            allowed: best.is_none_or(|rule| rule.allows),
            rule: best.map(|rule| Rule { line: rule.line, text: self.text(&rule.source) }),
        }
    }

    /// How long `agent` is asked to wait between two requests: at most [`MAX_CRAWL_DELAY`].
    pub fn crawl_delay(&self, agent: &str) -> Option<Duration> {
        self.mentions(agent).iter().filter_map(|mention| self.delays[mention.block]).max()
    }

    /// The sitemaps that the file names, as they stand there and each once. They are for every agent.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// How much memory it takes, about: what the vectors and texts have room for, and what an allocation costs besides.
    pub(crate) fn memory(&self) -> usize {
        const ALLOCATION: usize = 16;
        let text = |length: usize| length + ALLOCATION;
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
        let sitemaps = self.sitemaps.iter().map(|place| text(size_of_val(place) + place.len()));
        text(self.source.len())
            + patterns
            + groups
            + size_of_val(&*self.delays)
            + agents.sum::<usize>()
            + sitemaps.sum::<usize>()
    }

    /// The places that hold for an agent: those that name it, otherwise those for all.
    fn mentions(&self, agent: &str) -> &[Mention] {
        let token = product_token(agent.as_bytes());
        let named = (!token.is_empty()).then(|| self.agents.get(token.as_str())).flatten();
        named.or_else(|| self.agents.get("*")).map_or(&[], Vec::as_slice)
    }

    fn text(&self, range: &Range<usize>) -> String {
        String::from_utf8_lossy(&self.source[range.clone()]).into_owned()
    }
}

/// The product token at the start of a user agent, in lower case; empty if there is none.
fn product_token(agent: &[u8]) -> String {
    agent
        .trim_ascii_start()
        .iter()
        .take_while(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'))
        .map(|octet| char::from(octet.to_ascii_lowercase()))
        .collect()
}
