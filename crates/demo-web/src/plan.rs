//! Plans: the contents of a web.

/// Contents of a web; deterministic by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) naming: Naming,
}

/// Naming of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Names such as `news.localhost`, all at one address; the crawler needs name resolution for them.
    Names,
    /// A loopback address for each, from 127.0.0.2 on, without name resolution. Linux has all of 127.0.0.0/8; other
    /// systems may need a configuration.
    Addresses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Crash { pages: usize },
    Traps,
    Bench { pages: usize },
    Tiny { pages: usize },
    Demo,
}

impl Plan {
    /// 2,000 pages on 20 hosts with redirects, errors, duplicates, equivalent URLs, charsets and robots.txt, and one more
    /// host with connection resets.
    #[must_use]
    pub fn crash() -> Self {
        Self::new(Kind::Crash { pages: 2000 }, Naming::Addresses)
    }

    /// [`crash`](Self::crash) with this number of ordinary pages, at least 200.
    #[must_use]
    pub fn crash_of(pages: usize) -> Self {
        Self::new(Kind::Crash { pages: pages.max(200) }, Naming::Addresses)
    }

    /// Crawler traps beside 50 ordinary pages.
    #[must_use]
    pub fn traps() -> Self {
        Self::new(Kind::Traps, Naming::Addresses)
    }

    /// One host with this many pages of about 11 KB and 20 links, at least one page.
    #[must_use]
    pub fn bench(pages: usize) -> Self {
        Self::new(Kind::Bench { pages: pages.max(1) }, Naming::Addresses)
    }

    /// One host with this many pages of about 300 bytes and up to 6 links, at least one page. Pages are generated, so that
    /// there can be millions, and the ground truth has only the seed: all pages, `/` and `/1` to `/{pages - 1}`, are to be
    /// indexed with the title `Tiny page {number}`.
    #[must_use]
    pub fn tiny(pages: usize) -> Self {
        Self::new(Kind::Tiny { pages: pages.max(1) }, Naming::Addresses)
    }

    /// Small readable web: news, a shop, documentation, pages in four languages, a slow host and an old one.
    #[must_use]
    pub fn demo() -> Self {
        Self::new(Kind::Demo, Naming::Names)
    }

    /// Sets the seed of texts and links.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the naming of hosts.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    fn new(kind: Kind, naming: Naming) -> Self {
        Self { kind, seed: 1, naming }
    }
}
