//! Cache of per-site data, bounded by the number of sites and by memory.

use std::{collections::HashMap, sync::Arc};

/// Maximum number of sites; the one added or sized first is evicted.
const MAX_SITES: usize = 20_000;
/// Maximum memory of all sites. A hostile robots.txt takes up to 15 MiB, a usual one a few KiB.
const MAX_BYTES: usize = 64 << 20;

/// Cache of per-site data by origin; the oldest entries are evicted first.
#[derive(Debug)]
pub(crate) struct SiteCache<T> {
    sites: HashMap<String, Entry<T>>,
    bytes: usize,
    /// Sequence number of the next entry. Clocks can be set back.
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    site: Arc<T>,
    bytes: usize,
    number: u64,
}

impl<T> Default for SiteCache<T> {
    fn default() -> Self {
        Self { sites: HashMap::new(), bytes: 0, next: 0 }
    }
}

impl<T: Default> SiteCache<T> {
    pub(crate) fn get(&self, origin: &str) -> Option<Arc<T>> {
        self.sites.get(origin).map(|entry| entry.site.clone())
    }

    pub(crate) fn get_or_add(&mut self, origin: &str) -> Arc<T> {
        if let Some(site) = self.get(origin) {
            return site;
        }
        if self.sites.len() >= MAX_SITES {
            self.evict();
        }
        let site = Arc::new(T::default());
        let entry = Entry { site: site.clone(), bytes: 0, number: self.number() };
        self.sites.insert(origin.to_owned(), entry);
        site
    }

    /// Sets the memory of a site.
    pub(crate) fn resize(&mut self, origin: &str, site: &Arc<T>, bytes: usize) {
        let number = self.number();
        // The entry may have been evicted meanwhile.
        let Some(entry) = self.sites.get_mut(origin).filter(|entry| Arc::ptr_eq(&entry.site, site)) else {
            return;
        };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        entry.number = number;
        if self.bytes > MAX_BYTES {
            self.evict();
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Evicts the oldest entries until a tenth of both limits is free. Rare, and cheaper than a sorted index.
    fn evict(&mut self) {
        let mut ages: Vec<(u64, String)> =
            self.sites.iter().map(|(origin, entry)| (entry.number, origin.clone())).collect();
        ages.sort_unstable();
        for (_, origin) in ages {
            let (few, light) = (self.sites.len() <= MAX_SITES / 10 * 9, self.bytes <= MAX_BYTES / 10 * 9);
            if few && light {
                return;
            }
            // Entries without memory are evicted for their number only.
            if (!few || self.sites.get(&origin).is_some_and(|entry| entry.bytes > 0))
                && let Some(evicted) = self.sites.remove(&origin)
            {
                self.bytes -= evicted.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_oldest_are_evicted() {
        let mut cache = SiteCache::<()>::default();
        let sites: Vec<_> =
            (0..1000).map(|number| (number, cache.get_or_add(&format!("s{number}")))).collect();
        cache.get_or_add("light");
        for (number, site) in &sites {
            cache.resize(&format!("s{number}"), site, 1 << 20);
            let sum: usize = cache.sites.values().map(|entry| entry.bytes).sum();
            assert!(cache.bytes == sum && sum <= MAX_BYTES, "{sum} bytes, counted as {}", cache.bytes);
            assert!(cache.get(&format!("s{number}")).is_some(), "the newest stays");
        }
        assert!(cache.get("s0").is_none() && cache.get("light").is_some());
        // An entry added again after its eviction is another one.
        cache.get_or_add("s0");
        cache.resize("s0", &sites[0].1, 1 << 20);
        assert_eq!(cache.sites["s0"].bytes, 0);
        let (_, last) = &sites[999];
        let before = cache.bytes;
        cache.resize("s999", last, 0);
        assert_eq!(cache.bytes, before - (1 << 20));
    }

    #[test]
    fn the_number_of_sites_is_bounded() {
        let mut cache = SiteCache::<()>::default();
        for number in 0..MAX_SITES + 10 {
            cache.get_or_add(&number.to_string());
            assert!(cache.sites.len() <= MAX_SITES);
        }
        assert!(cache.get("0").is_none() && cache.get(&MAX_SITES.to_string()).is_some());
    }
}
