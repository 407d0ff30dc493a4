//! What is kept of each site: so many sites, and so much memory, whatever one of them takes.

use std::{collections::HashMap, sync::Arc};

/// Something is kept of this many sites; the one that was weighed or met first gives way.
const MAX_SITES: usize = 20_000;
/// All of them together take this much memory. A robots.txt made to hurt takes some 15 MiB, an ordinary one a few KiB.
const MAX_BYTES: usize = 64 << 20;

/// What is kept of each site, by its origin.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    sites: HashMap<String, Entry<T>>,
    bytes: usize,
    /// Counts what was met and weighed, since clocks can be set back.
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    site: Arc<T>,
    bytes: usize,
    number: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { sites: HashMap::new(), bytes: 0, next: 0 }
    }
}

impl<T: Default> Kept<T> {
    pub(crate) fn get(&self, origin: &str) -> Option<Arc<T>> {
        self.sites.get(origin).map(|entry| entry.site.clone())
    }

    pub(crate) fn get_or_add(&mut self, origin: &str) -> Arc<T> {
        if let Some(site) = self.get(origin) {
            return site;
        }
        if self.sites.len() >= MAX_SITES {
            self.make_room();
        }
        let site = Arc::new(T::default());
        let entry = Entry { site: site.clone(), bytes: 0, number: self.number() };
        self.sites.insert(origin.to_owned(), entry);
        site
    }

    /// Says how much memory a site takes from now on.
    pub(crate) fn weigh(&mut self, origin: &str, site: &Arc<T>, bytes: usize) {
        let number = self.number();
        // It may have given way meanwhile.
        let Some(entry) = self.sites.get_mut(origin).filter(|entry| Arc::ptr_eq(&entry.site, site)) else {
            return;
        };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        entry.number = number;
        if self.bytes > MAX_BYTES {
            self.make_room();
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Rare, and cheaper than keeping them in order: the oldest go until there is a tenth more room than needed.
    fn make_room(&mut self) {
        let mut ages: Vec<(u64, String)> =
            self.sites.iter().map(|(origin, entry)| (entry.number, origin.clone())).collect();
        ages.sort_unstable();
        for (_, origin) in ages {
            let (few, light) = (self.sites.len() <= MAX_SITES / 10 * 9, self.bytes <= MAX_BYTES / 10 * 9);
            if few && light {
                return;
            }
            // What takes no memory makes no room for what does.
            if (!few || self.sites.get(&origin).is_some_and(|entry| entry.bytes > 0))
                && let Some(gone) = self.sites.remove(&origin)
            {
                self.bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_to_what_takes_memory() {
        let mut kept = Kept::<()>::default();
        let sites: Vec<_> =
            (0..1000).map(|number| (number, kept.get_or_add(&format!("s{number}")))).collect();
        kept.get_or_add("light");
        for (number, site) in &sites {
            kept.weigh(&format!("s{number}"), site, 1 << 20);
            let sum: usize = kept.sites.values().map(|entry| entry.bytes).sum();
            assert!(kept.bytes == sum && sum <= MAX_BYTES, "{sum} bytes, counted as {}", kept.bytes);
            assert!(kept.get(&format!("s{number}")).is_some(), "the newest stays");
        }
        assert!(kept.get("s0").is_none() && kept.get("light").is_some());
        // One that gave way, and was met again, is not mixed up with the one from before.
        kept.get_or_add("s0");
        kept.weigh("s0", &sites[0].1, 1 << 20);
        assert_eq!(kept.sites["s0"].bytes, 0);
        let (_, last) = &sites[999];
        let before = kept.bytes;
        kept.weigh("s999", last, 0);
        assert_eq!(kept.bytes, before - (1 << 20));
    }

    #[test]
    fn there_are_never_more_sites_than_may_be() {
        let mut kept = Kept::<()>::default();
        for number in 0..MAX_SITES + 10 {
            kept.get_or_add(&number.to_string());
            assert!(kept.sites.len() <= MAX_SITES);
        }
        assert!(kept.get("0").is_none() && kept.get(&MAX_SITES.to_string()).is_some());
    }
}
