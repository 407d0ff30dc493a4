//! Plans: which web is made.

/// What a web contains. The same plan with the same seed gives the same web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) naming: Naming,
}

/// How hosts are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By names such as `news.localhost`, all at one address. Whoever crawls must be told where the names lead.
    Names,
    /// Each by a loopback address of its own, from 127.0.0.2 on, so that a crawler without special name resolution
    /// sees several hosts. Linux answers on all of 127.0.0.0/8; elsewhere the addresses may have to be set up.
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
    /// 2,000 pages on 20 hosts with everything that goes wrong on a web: redirects, errors, duplicates, other
    /// spellings, charsets, robots rules. One host more has connections that are reset.
    #[must_use]
    pub fn crash() -> Self {
        Self::new(Kind::Crash { pages: 2000 }, Naming::Addresses)
    }

    /// The same with another number of ordinary pages, at least 200.
    #[must_use]
    pub fn crash_of(pages: usize) -> Self {
        Self::new(Kind::Crash { pages: pages.max(200) }, Naming::Addresses)
    }

    /// Traps without end beside 50 ordinary pages that must still be found.
    #[must_use]
    pub fn traps() -> Self {
        Self::new(Kind::Traps, Naming::Addresses)
    }

    /// One host with this many pages of about 11 KB and 20 links each, at least one page.
    #[must_use]
    pub fn bench(pages: usize) -> Self {
        Self::new(Kind::Bench { pages: pages.max(1) }, Naming::Addresses)
    }

    /// One host with this many pages of some 300 bytes and up to 6 links each, at least one page. Nothing is kept for a
    /// page, so that there can be millions, and so the truth names the start only: the pages are `/` and `/1` to
    /// `/{pages - 1}`, all are to be indexed, and each has the title `Tiny page {number}`.
    #[must_use]
    pub fn tiny(pages: usize) -> Self {
        Self::new(Kind::Tiny { pages: pages.max(1) }, Naming::Addresses)
    }

    /// A small web worth searching: news, a shop, documentation, pages in four languages, a slow host and an old one.
    #[must_use]
    pub fn demo() -> Self {
        Self::new(Kind::Demo, Naming::Names)
    }

    /// Another seed gives other texts and links of the same kinds.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Tells hosts apart in another way than the plan's own.
    #[must_use]
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    fn new(kind: Kind, naming: Naming) -> Self {
        Self { kind, seed: 1, naming }
    }
}
