//! The test oracle: the page index as simply as it can be said, with faults that can be switched on.

use crawlway_store::{
    IndexedPage, PageIndex, StoreError, Timestamp,
    conformance::pages::Harness,
    pages::{Hit, Query, Results, Search, SearchError, precedence, words},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

crawlway_conformance::faults! {
    DropsDescription,
    SignsSimhash,
    KeepsTheFirst,
    KeepsBoth,
    FirstOfABatchCounts,
    SecondWriteForgets,
    FoundLater,
    FoundByOldText,
    FoundWhenRemoved,
    FindsByPrefix,
    FoldsCase,
    CountsWrites,
    ScanByText,
    ScanWithoutLimit,
    ScanNeedsItsStart,
    RemoveCountsAsked,
    RemoveIsForEver,
    RefusesEmpty,
    CutsLongUrls,
    TrimsTexts,
    CutsBigPages,
    RefusesLongWords,
    KeepsAThousand,
    HandlesApart,
    LosesTheLast,
    LosesWithoutClose,
    CloseForgets,
    RacesItself,
    IgnoresTimes,
    IgnoresTimesInABatch,
    EqualTimesKeepTheFirst,
    TrustsTheFuture,
    ForgetsRemovals,
    OnlyPagesLeaveTombstones,
    TombstonesAreInMemory,
    RemovesWhatCameLater,
    MatchesAll,
    MatchesFromTheStart,
}

#[derive(Default)]
struct Pages {
    stored: BTreeMap<String, IndexedPage>,
    /// What each page said when it was first written.
    old: BTreeMap<String, IndexedPage>,
    removed: BTreeMap<String, Timestamp>,
    last: Vec<String>,
    writes: u64,
}

#[derive(Clone)]
struct Oracle {
    pages: Arc<Mutex<Pages>>,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(fault: Fault) -> Self {
        Self { pages: Arc::default(), fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("no panic under the lock")
    }

    fn key(&self, url: &str) -> String {
        match self.fault {
            Fault::FoldsCase => url.to_lowercase(),
            Fault::CutsLongUrls => url.chars().take(2048).collect(),
            _ => url.to_owned(),
        }
    }

    fn cut(&self, mut page: IndexedPage) -> IndexedPage {
        match self.fault {
            Fault::DropsDescription => page.description = None,
            Fault::SignsSimhash => page.simhash &= u64::MAX >> 1,
            Fault::TrimsTexts => page.text = page.text.trim().to_owned(),
            Fault::CutsBigPages => page.text.truncate(1 << 20),
            _ => {}
        }
        page
    }
}

fn refused<T>(problem: &str) -> Result<T, StoreError> {
    Err(StoreError::Invalid { problem: problem.to_owned() })
}

#[async_trait::async_trait]
impl PageIndex for Oracle {
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError> {
        let mut pages = match self.fault {
            Fault::TrustsTheFuture => pages.to_vec(),
            _ => precedence::received(pages, Timestamp::now()).to_vec(),
        };
        let long = |page: &IndexedPage| page.text.split_whitespace().any(|word| word.len() > 65_530);
        if self.has(Fault::RefusesEmpty) && pages.is_empty() {
            return refused("nothing to write");
        }
        if self.has(Fault::RefusesLongWords) && pages.iter().any(long) {
            return refused("a word is too long");
        }
        match self.fault {
            Fault::FirstOfABatchCounts => pages.reverse(),
            Fault::KeepsAThousand => pages.truncate(1000),
            _ => {}
        }
        if self.has(Fault::RacesItself) {
            let mut stored = self.pages().stored.clone();
            tokio::time::sleep(Duration::from_millis(1)).await;
            stored.extend(pages.into_iter().map(|page| (page.url.clone(), page)));
            self.pages().stored = stored;
            return Ok(());
        }
        let mut store = self.pages();
        let before: BTreeMap<String, IndexedPage> = store.stored.clone();
        store.last = pages.iter().map(|page| self.key(&page.url)).collect();
        for page in pages {
            let mut key = self.key(&page.url);
            store.writes += 1;
            match self.fault {
                Fault::KeepsTheFirst if store.stored.contains_key(&key) => continue,
                Fault::KeepsBoth if store.stored.contains_key(&key) => key.push(' '),
                Fault::RemoveIsForEver if store.removed.contains_key(&key) => continue,
                Fault::SecondWriteForgets if store.stored.get(&key) == Some(&page) => {
                    store.stored.remove(&key);
                    continue;
                }
                _ => {}
            }
            let known = match self.fault {
                Fault::IgnoresTimes => None,
                Fault::IgnoresTimesInABatch => before.get(&key),
                _ => store.stored.get(&key),
            };
            let is_late = known.is_some_and(|known| match self.fault {
                Fault::EqualTimesKeepTheFirst => page.crawled_at <= known.crawled_at,
                _ => !precedence::replaces(page.crawled_at, known.crawled_at),
            });
            let removed = store.removed.get(&key).copied();
            if is_late || removed.is_some_and(|removed| !precedence::revives(page.crawled_at, removed)) {
                continue;
            }
            store.old.entry(key.clone()).or_insert_with(|| page.clone());
            let page = self.cut(page);
            store.stored.insert(key, page);
        }
        Ok(())
    }

    async fn search(&self, search: &Search) -> Result<Results, SearchError> {
        let store = self.pages();
        let from = match self.fault {
            Fault::FoundByOldText | Fault::FoundWhenRemoved => &store.old,
            _ => &store.stored,
        };
        let here = |key: &&String| self.has(Fault::FoundWhenRemoved) || store.stored.contains_key(*key);
        let late = |key: &&String| !(self.has(Fault::FoundLater) && store.last.contains(*key));
        let says = |page: &IndexedPage| {
            page.text.split_whitespace().any(|word| match self.fault {
                Fault::FindsByPrefix => {
                    search.query.starts_with(word) || word.starts_with(&search.query[..1])
                }
                _ => word == search.query,
            })
        };
        let found = from.iter().filter(|(key, page)| here(key) && late(key) && says(page));
        let hits: Vec<Hit> = found
            .map(|(_, page)| Hit {
                url: page.url.clone(),
                host: page.host.clone(),
                title: page.title.clone(),
                description: page.description.clone(),
                snippet: String::new(),
                score: 1.0,
                crawled_at: page.crawled_at,
                status_code: page.status_code,
                item: page.item.clone(),
                simhash: page.simhash.cast_signed(),
                duplicates: Vec::new(),
            })
            .collect();
        Ok(Results { total: hits.len() as u64, hits, next_offset: None })
    }

    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError> {
        Ok(self.pages().stored.get(&self.key(url)).cloned())
    }

    async fn count(&self) -> Result<u64, StoreError> {
        let store = self.pages();
        Ok(if self.has(Fault::CountsWrites) { store.writes } else { store.stored.len() as u64 })
    }

    async fn scan(&self, after: Option<&str>, most: usize) -> Result<Vec<IndexedPage>, StoreError> {
        let store = self.pages();
        if let Some(after) = after
            && self.has(Fault::ScanNeedsItsStart)
            && !store.stored.contains_key(after)
        {
            return refused("there is no such page");
        }
        let mut pages: Vec<IndexedPage> = store
            .stored
            .values()
            .filter(|page| after.is_none_or(|after| page.url.as_str() > after))
            .cloned()
            .collect();
        match self.fault {
            Fault::ScanByText => pages.sort_by_key(|page| page.text.to_lowercase()),
            _ => pages.sort_by(|one, other| one.url.cmp(&other.url)),
        }
        if !self.has(Fault::ScanWithoutLimit) {
            pages.truncate(most);
        }
        Ok(pages)
    }

    async fn matching(
        &self,
        query: &Query,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<IndexedPage>, StoreError> {
        let matches = |page: &IndexedPage| match query {
            Query::Word(word) => words::list(&page.text).contains(word),
            Query::Host(host) => page.domains().any(|domain| domain == host),
            _ => true,
        };
        let after = after.filter(|_| !self.has(Fault::MatchesFromTheStart));
        let store = self.pages();
        let pages = store.stored.values().filter(|page| after.is_none_or(|after| page.url.as_str() > after));
        let pages = pages.filter(|page| self.has(Fault::MatchesAll) || matches(page));
        Ok(pages.take(most).cloned().collect())
    }

    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, StoreError> {
        let mut store = self.pages();
        let mut removed = 0;
        for url in urls {
            let key = self.key(url);
            let is_newer = |page: &IndexedPage| gone_at.is_some_and(|gone_at| page.crawled_at > gone_at);
            if store.stored.get(&key).is_some_and(is_newer) && !self.has(Fault::RemovesWhatCameLater) {
                continue;
            }
            let page = store.stored.remove(&key);
            removed += u64::from(page.is_some() || self.has(Fault::RemoveCountsAsked));
            let keeps = match self.fault {
                Fault::ForgetsRemovals => false,
                Fault::OnlyPagesLeaveTombstones => page.is_some(),
                _ => true,
            };
            if keeps {
                let at = precedence::tombstone(
                    gone_at.unwrap_or_else(Timestamp::now),
                    page.map(|page| page.crawled_at),
                );
                let kept = store.removed.entry(key).or_insert(at);
                *kept = at.max(*kept);
            }
        }
        Ok(removed)
    }

    async fn close(&self) -> Result<(), StoreError> {
        if self.has(Fault::CloseForgets) {
            self.pages().stored.clear();
        }
        Ok(())
    }
}

pub(crate) struct OracleHarness {
    oracle: Oracle,
}

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { oracle: Oracle::new(fault) }
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.oracle.clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn PageIndex>> {
        if self.oracle.has(Fault::HandlesApart) {
            return Some(Arc::new(Oracle::new(Fault::HandlesApart)));
        }
        Some(Arc::new(self.oracle.clone()))
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        let mut pages = self.oracle.pages();
        match self.oracle.fault {
            Fault::LosesWithoutClose => pages.stored.clear(),
            Fault::TombstonesAreInMemory => pages.removed.clear(),
            Fault::LosesTheLast => {
                let Pages { stored, last, .. } = &mut *pages;
                last.iter().for_each(|key| drop(stored.remove(key)));
            }
            _ => {}
        }
        drop(pages);
        Arc::new(self.oracle.clone())
    }
}
