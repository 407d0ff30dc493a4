//! Parser of robots.txt, as RFC 9309 defines it.

use super::{MAX_BYTES, MAX_CRAWL_DELAY, Mention, Robots, pattern::Pattern, product_token};
use std::{collections::HashSet, ops::Range, time::Duration};

/// Group of rules; each [`Mention`] assigns an agent to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) rules: Vec<Rule>,
}

/// An `Allow` or a `Disallow` line.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) allows: bool,
    pub(super) pattern: Pattern,
    pub(super) line: usize,
    /// Range of the line in the source.
    pub(super) source: Range<usize>,
}

impl Rule {
    /// Precedence among the rules that match: the longest pattern, then `Allow`.
    pub(super) fn rank(&self) -> (usize, bool) {
        (self.pattern.octets, self.allows)
    }
}

/// Key of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
}

/// Keys, with the misspellings that the big search engines accept.
const KEYS: &[(&str, Key)] = &[
    ("user-agent", Key::UserAgent),
    ("useragent", Key::UserAgent),
    ("user agent", Key::UserAgent),
    ("allow", Key::Allow),
    ("disallow", Key::Disallow),
    ("dissallow", Key::Disallow),
    ("dissalow", Key::Disallow),
    ("disalow", Key::Disallow),
    ("diasllow", Key::Disallow),
    ("disallaw", Key::Disallow),
    ("crawl-delay", Key::CrawlDelay),
    ("sitemap", Key::Sitemap),
    ("site-map", Key::Sitemap),
];

pub(super) fn robots(bytes: &[u8]) -> Robots {
    let source = within_limit(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes));
    let mut parser = Parser::default();
    for (index, range) in (Lines { source, start: 0 }).enumerate() {
        let line = &source[range.clone()];
        if let Some((key, value)) = key_and_value(line) {
            parser.take(key, value, index + 1, trimmed(line, range));
        }
    }
    let mut robots = parser.robots;
    // The cache holds many of these for a day.
    robots.groups.iter_mut().for_each(|group| group.rules.shrink_to_fit());
    // The source only serves to quote rules, so that a file without rules needs none.
    if robots.groups.iter().any(|group| !group.rules.is_empty()) {
        robots.source = source.into();
    }
    robots
}

/// Truncates at the end of a line, since half a rule is another rule.
fn within_limit(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= MAX_BYTES || is_line_end(bytes[MAX_BYTES]) {
        return &bytes[..bytes.len().min(MAX_BYTES)];
    }
    let end = bytes[..MAX_BYTES].iter().rposition(|&octet| is_line_end(octet)).unwrap_or(0);
    &bytes[..end]
}

fn is_line_end(octet: u8) -> bool {
    matches!(octet, b'\n' | b'\r')
}

/// Ranges of the lines, which end with LF, CR or CRLF, even mixed.
struct Lines<'a> {
    source: &'a [u8],
    start: usize,
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.source.get(self.start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|&octet| is_line_end(octet)).unwrap_or(rest.len());
        let line = self.start..self.start + length;
        let ending = if rest[length..].starts_with(b"\r\n") { 2 } else { 1 };
        self.start = line.end + ending;
        Some(line)
    }
}

fn trimmed(line: &[u8], range: Range<usize>) -> Range<usize> {
    let start = range.end - line.trim_ascii_start().len();
    start..start + line.trim_ascii().len()
}

/// Key and value of a line; `None` for an unknown key.
fn key_and_value(line: &[u8]) -> Option<(Key, &[u8])> {
    let content = line.split(|&octet| octet == b'#').next().unwrap_or_default().trim_ascii();
    let with_colon = content.iter().position(|&octet| octet == b':');
    if let Some(colon) = with_colon
        && let Some(key) = key(content[..colon].trim_ascii_end())
    {
        return Some((key, content[colon + 1..].trim_ascii()));
    }
    // A missing colon is accepted. A line of more than two words is prose, not a rule.
    let space = content.iter().position(u8::is_ascii_whitespace)?;
    let value = content[space..].trim_ascii_start();
    if value.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    Some((key(&content[..space])?, value))
}

fn key(name: &[u8]) -> Option<Key> {
    KEYS.iter().find(|(text, _)| name.eq_ignore_ascii_case(text.as_bytes())).map(|&(_, key)| key)
}

/// Parser state.
#[derive(Default)]
struct Parser {
    robots: Robots,
    seen_sitemaps: HashSet<String>,
    /// Whether the group has a rule, so that the next `User-agent` starts another group.
    group_is_closed: bool,
    /// Whether the block has a delay or its group a rule, so that the next `User-agent` starts another block.
    block_is_closed: bool,
}

impl Parser {
    fn take(&mut self, key: Key, value: &[u8], line: usize, source: Range<usize>) {
        match key {
            Key::UserAgent => self.user_agent(value),
            Key::Allow | Key::Disallow => self.rule(key == Key::Allow, value, line, source),
            Key::CrawlDelay => self.crawl_delay(value),
            Key::Sitemap => self.sitemap(value),
        }
    }

    fn user_agent(&mut self, value: &[u8]) {
        let Robots { groups, delays, agents, .. } = &mut self.robots;
        if groups.is_empty() || self.group_is_closed {
            groups.push(Group::default());
            self.group_is_closed = false;
        }
        if delays.is_empty() || self.block_is_closed {
            delays.push(None);
            self.block_is_closed = false;
        }
        let token = if is_wildcard(value) { "*".to_owned() } else { product_token(value) };
        // The rules after a line without a token apply to no agent.
        if token.is_empty() {
            return;
        }
        let mention = Mention { group: groups.len() - 1, block: delays.len() - 1 };
        let mentions = agents.entry(token.into_boxed_str()).or_default();
        if mentions.last() != Some(&mention) {
            mentions.push(mention);
        }
    }

    fn rule(&mut self, allows: bool, value: &[u8], line: usize, source: Range<usize>) {
        // A rule before the first group applies to no agent.
        let Some(group) = self.robots.groups.last_mut() else {
            return;
        };
        self.group_is_closed = true;
        self.block_is_closed = true;
        if let Some(pattern) = Pattern::new(value) {
            group.rules.push(Rule { allows, pattern, line, source });
        }
    }

    fn crawl_delay(&mut self, value: &[u8]) {
        if let Some(delay) = self.robots.delays.last_mut()
            && let Some(seconds) = seconds(value)
        {
            *delay = Some(delay.unwrap_or_default().max(seconds));
            self.block_is_closed = true;
        }
    }

    fn sitemap(&mut self, value: &[u8]) {
        let url = String::from_utf8_lossy(value).into_owned();
        if !url.is_empty() && self.seen_sitemaps.insert(url.clone()) {
            self.robots.sitemaps.push(url);
        }
    }
}

/// Whether the value is `*`, possibly with more words.
fn is_wildcard(user_agent: &[u8]) -> bool {
    match user_agent {
        [b'*', rest @ ..] => rest.first().is_none_or(u8::is_ascii_whitespace),
        _ => false,
    }
}

/// Seconds with an optional fraction; anything else is invalid.
fn seconds(value: &[u8]) -> Option<Duration> {
    if !value.iter().all(|octet| octet.is_ascii_digit() || *octet == b'.') {
        return None;
    }
    let number: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    let seconds = number.min(MAX_CRAWL_DELAY.as_secs_f64());
    Duration::try_from_secs_f64(seconds).ok()
}
