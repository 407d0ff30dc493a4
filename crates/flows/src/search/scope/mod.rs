//! Scope of a crawl: host rules, patterns, depth and traps decide which links are followed.

mod glob;
mod traps;

pub use traps::Traps;

use super::Definition;
use crawlway_content::NormalUrl;
use crawlway_store::frontier::UrlBudget;
use glob::Glob;
use std::fmt;

/// Reason for URLs of other hosts.
pub(crate) const OUT_OF_HOSTS: &str = "scope.host";

/// Compiled scope of a crawl.
#[derive(Debug)]
pub(crate) struct Scope {
    hosts: Vec<HostRule>,
    include: Vec<Glob>,
    exclude: Vec<Glob>,
    max_depth: Option<u32>,
    traps: Traps,
}

/// Followed link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) url: NormalUrl,
    pub(crate) depth: u32,
    pub(crate) chain: u32,
    pub(crate) budget: Option<UrlBudget>,
}

/// Page that contains a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From<'a> {
    /// URL pattern of the page, see [`Scope::kind`].
    pub(crate) kind: &'a str,
    pub(crate) depth: u32,
    pub(crate) chain: u32,
}

impl Scope {
    pub(crate) fn new(definition: &Definition) -> Self {
        // Stored rules are valid.
        let mut hosts: Vec<HostRule> =
            definition.hosts.iter().filter_map(|host| HostRule::new(host).ok()).collect();
        if definition.hosts.is_empty() {
            hosts = definition
                .seeds
                .iter()
                .filter_map(|seed| seed.parse::<NormalUrl>().ok())
                .map(|seed| HostRule { host: seed.host().to_owned(), subdomains: false, port: None })
                .collect();
        }
        hosts.extend(definition.state.joined_hosts.iter().filter_map(|host| HostRule::new(host).ok()));
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        Self {
            hosts,
            include: globs(&definition.include),
            exclude: globs(&definition.exclude),
            max_depth: definition.max_depth,
            traps: definition.traps,
        }
    }

    /// URL without its numbers and values, to detect chains of similar URLs.
    pub(crate) fn kind(url: &NormalUrl) -> String {
        traps::kind(url)
    }

    /// URL without session ids.
    pub(crate) fn tidy(url: NormalUrl) -> NormalUrl {
        traps::without_session(url)
    }

    /// Whether a URL is in the scope, apart from its depth; else the reason.
    pub(crate) fn has(&self, url: &NormalUrl) -> Result<(), &'static str> {
        if !self.hosts.iter().any(|rule| rule.matches(url)) {
            return Err(OUT_OF_HOSTS);
        }
        if self.exclude.iter().any(|glob| glob.matches(url)) {
            return Err("scope.excluded");
        }
        if !self.include.is_empty() && !self.include.iter().any(|glob| glob.matches(url)) {
            return Err("scope.not_included");
        }
        Ok(())
    }

    /// Whether an external URL (redirect, canonical URL, sitemap) is in the scope, apart from its depth; else the reason.
    pub(crate) fn takes(&self, url: &NormalUrl) -> Result<(), &'static str> {
        if traps::is_too_long(url, &self.traps) {
            return Err(traps::TOO_LONG);
        }
        self.has(url)
    }

    /// Whether a URL of the frontier is still in the scope; else the reason.
    pub(crate) fn still_has(&self, url: &NormalUrl, depth: u32) -> Result<(), &'static str> {
        if self.max_depth.is_some_and(|max| depth > max) {
            return Err("scope.depth");
        }
        self.has(url)
    }

    /// Followed link, or the reason why it is not followed.
    pub(crate) fn follow(
        &self,
        link: NormalUrl,
        from: From<'_>,
        this_year: u64,
    ) -> Result<Followed, &'static str> {
        let depth = from.depth.saturating_add(1);
        if self.max_depth.is_some_and(|max| depth > max) {
            return Err("scope.depth");
        }
        let url = Self::tidy(link);
        self.has(&url)?;
        let chain = if traps::kind(&url) == from.kind { from.chain.saturating_add(1) } else { 0 };
        if let Some(trap) = traps::detect(&url, chain, this_year, &self.traps) {
            return Err(trap);
        }
        let budget = traps::budget(&url, &self.traps);
        Ok(Followed { url, depth, chain, budget })
    }
}

/// Host rule: `example.org`, or `*.example.org` with its subdomains, either with a port.
#[derive(Debug)]
pub(crate) struct HostRule {
    host: String,
    subdomains: bool,
    port: Option<u16>,
}

impl HostRule {
    /// Parses a rule. The host may have any spelling that is valid in a URL.
    pub(crate) fn new(rule: &str) -> Result<Self, String> {
        let (rest, subdomains) = match rule.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (rule, false),
        };
        let expected = "expected a host such as `example.org`, `*.example.org` or `example.org:8080`";
        if rest.is_empty() || rest.contains(['/', '?', '#', '@', '*', '\\']) {
            return Err(expected.to_owned());
        }
        let url: NormalUrl =
            format!("http://{rest}/").parse().map_err(|error| format!("{expected}: {error}"))?;
        let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        Ok(Self { host: url.host().to_owned(), subdomains, port: has_port.then(|| url.port()) })
    }

    fn matches(&self, url: &NormalUrl) -> bool {
        let host = url.host();
        let same = host == self.host
            || self.subdomains && host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.'));
        same && self.port.is_none_or(|port| port == url.port())
    }
}

/// Normal form of the rule.
impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wildcard = if self.subdomains { "*." } else { "" };
        write!(f, "{wildcard}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(change: impl FnOnce(&mut Definition)) -> Scope {
        let mut definition = Definition::of_seeds(["http://a.test/"]);
        change(&mut definition);
        Scope::new(&definition)
    }

    fn follow(scope: &Scope, link: &str) -> Result<u32, &'static str> {
        let from = From { kind: "", depth: 1, chain: 0 };
        scope.follow(link.parse().unwrap(), from, 2026).map(|followed| followed.depth)
    }

    #[test]
    fn the_seed_hosts_are_the_scope_unless_hosts_are_given() {
        let seeds = scope(|_| {});
        assert_eq!(follow(&seeds, "https://a.test/x"), Ok(2));
        assert_eq!(follow(&seeds, "http://www.a.test/x"), Err("scope.host"));
        let named = scope(|definition| definition.hosts = vec!["*.b.test".into(), "[::1]:81".into()]);
        assert_eq!(follow(&named, "http://b.test/"), Ok(2));
        assert_eq!(follow(&named, "http://x.b.test/"), Ok(2));
        assert_eq!(follow(&named, "http://xb.test/"), Err("scope.host"));
        assert_eq!(follow(&named, "http://a.test/"), Err("scope.host"));
        assert_eq!(follow(&named, "http://[::1]:81/"), Ok(2));
        assert_eq!(follow(&named, "http://[::1]/"), Err("scope.host"));
    }

    #[test]
    fn a_host_matches_in_any_spelling() {
        for (rule, spelling, url) in [
            ("A.Test", "a.test", "http://a.test/"),
            ("bücher.test", "xn--bcher-kva.test", "https://b%C3%BCcher.test/"),
            ("*.BÜCHER.test:8080", "*.xn--bcher-kva.test:8080", "http://www.bücher.test:8080/"),
            ("a.test:80", "a.test:80", "http://a.test/"),
            ("a.test:443", "a.test:443", "https://a.test/"),
            ("[::1]", "[::1]", "http://[0:0::1]:99/"),
        ] {
            let rule = HostRule::new(rule).unwrap();
            assert_eq!(rule.to_string(), spelling);
            assert!(rule.matches(&url.parse().unwrap()), "{spelling} {url}");
        }
        for wrong in ["", "*.", "https://a.test/", "a.test/x", "a.test:http", "a b", "*", "a.*.test"] {
            assert!(HostRule::new(wrong).unwrap_err().contains("expected a host"), "{wrong}");
        }
    }

    #[test]
    fn patterns_and_depth_narrow_it() {
        let narrow = scope(|definition| {
            definition.include = vec!["/blog/*".into()];
            definition.exclude = vec!["*.pdf".into()];
        });
        assert_eq!(follow(&narrow, "http://a.test/blog/1"), Ok(2));
        assert_eq!(follow(&narrow, "http://a.test/shop"), Err("scope.not_included"));
        assert_eq!(follow(&narrow, "http://a.test/blog/1.pdf"), Err("scope.excluded"));
        let shallow = scope(|definition| definition.max_depth = Some(1));
        assert_eq!(follow(&shallow, "http://a.test/x"), Err("scope.depth"));
    }

    #[test]
    fn a_chain_is_counted_while_the_kind_stays_the_same() {
        let scope = scope(|_| {});
        let page: NormalUrl = "http://a.test/list?page=4".parse().unwrap();
        let kind = Scope::kind(&page);
        let from = From { kind: &kind, depth: 4, chain: 3 };
        let next = scope.follow("http://a.test/list?page=5".parse().unwrap(), from, 2026).unwrap();
        assert_eq!((next.chain, next.depth), (4, 5));
        let item = scope.follow("http://a.test/item/5".parse().unwrap(), from, 2026).unwrap();
        assert_eq!(item.chain, 0);
    }
}
