//! URLs that the frontier is known to know, so that it need not be asked about the same links again and again.

use crawlway_store::{CrawlId, Ticket};
use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// A bounded memory of links: two generations, of which the older is forgotten when the younger is full.
#[derive(Debug)]
pub(super) struct Known {
    generation: usize,
    sets: Mutex<[HashSet<u128>; 2]>,
}

impl Known {
    /// Remembers at least the last `generation` links, and at most twice as many.
    pub(super) fn new(generation: usize) -> Self {
        Self { generation: generation.max(1), sets: Mutex::default() }
    }

    /// The links that are not remembered.
    pub(super) fn unknown<'l, T>(
        &self,
        crawl: &CrawlId,
        links: impl Iterator<Item = T> + 'l,
        url: impl Fn(&T) -> &str + 'l,
    ) -> Vec<T> {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |link: &T| {
            let name = name(crawl, url(link));
            sets[0].contains(&name) || sets[1].contains(&name)
        };
        links.filter(|link| !known(link)).collect()
    }

    /// Remembers links that the frontier has by now.
    pub(super) fn remember<'l>(&self, crawl: &CrawlId, urls: impl Iterator<Item = &'l str>) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        for url in urls {
            if sets[0].len() >= self.generation {
                let [young, old] = &mut *sets;
                std::mem::swap(young, old);
                young.clear();
            }
            sets[0].insert(name(crawl, url));
        }
    }
}

fn name(crawl: &CrawlId, url: &str) -> u128 {
    // Wide enough not to meet itself by chance, since a link that is taken for another would be lost.
    Ticket::of(url).as_u128() ^ Ticket::of(crawl.as_str()).as_u128().rotate_left(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_memory_stays_bounded() {
        let known = Known::new(10);
        let [a, b] = ["a", "b"].map(|id| CrawlId::new(id).unwrap());
        let urls: Vec<String> = (0..100).map(|n| format!("http://a.test/{n}")).collect();
        for url in &urls {
            known.remember(&a, [url.as_str()].into_iter());
        }
        let unknown = |crawl| known.unknown(crawl, urls.iter(), |url| url.as_str()).len();
        assert!((80..=90).contains(&unknown(&a)), "{} of 100 forgotten", unknown(&a));
        assert_eq!(unknown(&b), 100, "another crawl has its own");
        assert!(!known.unknown(&a, urls[99..].iter(), |url| url.as_str()).contains(&&urls[99]));
    }
}
