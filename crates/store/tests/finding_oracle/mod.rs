//! The test oracle: searching as simply as it can be said, with faults that can be switched on.

use crawlway_store::{
    IndexedPage, PageIndex, StoreError, Timestamp,
    conformance::finding::Harness,
    pages::{
        Duplicate, Hit, Query, Results, Search, SearchError,
        near::{Group, fold},
        snippet::marked,
        words,
    },
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

crawlway_conformance::faults! {
    NoTitleBoost,
    NoRarity,
    PhraseIsWords,
    PassesOverNot,
    TitleIsText,
    FindsByPrefix,
    HostAlone,
    HostByItsEnd,
    DaysEndAtTheirStart,
    FiltersCount,
    AnyPart,
    KeepsAccents,
    WordsBySpaces,
    DropsLongWords,
    TiesBackwards,
    GoesOnForEver,
    FoldsEachPart,
    NeverFolds,
    FoldsFour,
    FoldsEmpty,
    TotalOfGroups,
}

#[derive(Debug, Clone)]
struct Oracle {
    pages: Arc<Mutex<BTreeMap<String, IndexedPage>>>,
    fault: Fault,
}

impl Oracle {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn words(&self, text: &str) -> Vec<String> {
        match self.fault {
            Fault::KeepsAccents => {
                text.to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect()
            }
            Fault::WordsBySpaces => {
                text.split_whitespace().flat_map(|run| joined(&words::list(run))).collect()
            }
            Fault::DropsLongWords => words::list(text).into_iter().filter(|word| word.len() < 50).collect(),
            _ => words::list(text),
        }
    }

    /// How often the words of a query stand in a text.
    fn often(&self, text: &str, query: &str) -> usize {
        let (text, query) = (self.words(text), self.words(query));
        let same = |word: &String, asked: &String| match self.fault {
            Fault::FindsByPrefix => word.starts_with(asked.as_str()),
            _ => word == asked,
        };
        match query.len() {
            0 => 0,
            _ if self.has(Fault::PhraseIsWords) => {
                usize::from(query.iter().all(|asked| text.iter().any(|word| same(word, asked))))
            }
            many => {
                let here = |part: &[String]| part.iter().zip(&query).all(|(word, asked)| same(word, asked));
                text.windows(many).filter(|part| here(part)).count()
            }
        }
    }

    fn matches(&self, query: &Query, page: &IndexedPage) -> bool {
        match query {
            Query::Word(text) | Query::Phrase(text) => {
                self.often(&page.title, text) + self.often(&page.text, text) > 0
            }
            Query::TitleWord(text) | Query::TitlePhrase(text) => {
                let also = self.has(Fault::TitleIsText) && self.often(&page.text, text) > 0;
                also || self.often(&page.title, text) > 0
            }
            Query::Host(host) => match self.fault {
                Fault::HostAlone => page.host == *host,
                Fault::HostByItsEnd => page.host.ends_with(host.as_str()),
                _ => page.domains().any(|domain| domain == host),
            },
            Query::Crawled { from, to } => {
                let end = |day: &crawlway_store::pages::query::Moment| match self.fault {
                    Fault::DaysEndAtTheirStart => day.start(),
                    _ => day.end(),
                };
                from.is_none_or(|day| page.crawled_at >= day.start())
                    && to.is_none_or(|day| page.crawled_at <= end(&day))
            }
            Query::All(parts) => parts.iter().all(|part| self.matches(part, page)),
            Query::Any(parts) => parts.iter().any(|part| self.matches(part, page)),
            Query::Not(inner) => self.has(Fault::PassesOverNot) || !self.matches(inner, page),
        }
    }

    /// What pages are ranked by, each with what it counts.
    fn weighed<'q>(&self, query: &'q Query, all: &[&IndexedPage]) -> Vec<(&'q str, f32)> {
        match query {
            Query::Word(text) | Query::Phrase(text) | Query::TitleWord(text) | Query::TitlePhrase(text) => {
                let with = all.iter().filter(|page| self.matches(query, page)).count();
                let rarity = if self.has(Fault::NoRarity) { 1.0 } else { 1.0 / with.max(1) as f32 };
                vec![(text.as_str(), rarity)]
            }
            Query::All(parts) | Query::Any(parts) => {
                parts.iter().flat_map(|part| self.weighed(part, all)).collect()
            }
            Query::Host(_) | Query::Crawled { .. } if self.has(Fault::FiltersCount) => vec![("word", 1.0)],
            Query::Host(_) | Query::Crawled { .. } | Query::Not(_) => vec![],
        }
    }

    fn score(&self, weighed: &[(&str, f32)], page: &IndexedPage) -> f32 {
        let boost = if self.has(Fault::NoTitleBoost) { 1.0 } else { 3.0 };
        let of =
            |text: &str| boost * self.often(&page.title, text) as f32 + self.often(&page.text, text) as f32;
        weighed.iter().map(|(text, rarity)| rarity * of(text)).sum()
    }

    fn groups<'p>(&self, ranked: &[(f32, &'p IndexedPage)]) -> Vec<Group<(f32, &'p IndexedPage)>> {
        if self.has(Fault::NeverFolds) {
            return ranked.iter().map(|hit| Group::alone(*hit)).collect();
        }
        fold(ranked.iter().map(|hit| {
            let simhash = match self.fault {
                Fault::FoldsFour => hit.1.simhash & !1,
                _ => hit.1.simhash,
            };
            let has_words = self.has(Fault::FoldsEmpty) || !words::list(&hit.1.text).is_empty();
            (*hit, has_words.then_some(simhash))
        }))
    }
}

/// Words that stand without a space between them, as one.
fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.concat())
}

#[async_trait::async_trait]
impl PageIndex for Oracle {
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError> {
        let mut stored = self.pages.lock().expect("no panic under the lock");
        stored.extend(pages.iter().map(|page| (page.url.clone(), page.clone())));
        Ok(())
    }

    async fn search(&self, search: &Search) -> Result<Results, SearchError> {
        if !self.has(Fault::AnyPart) {
            search.check()?;
        }
        let query = Query::parse(&search.query)?;
        let stored = self.pages.lock().expect("no panic under the lock");
        let all: Vec<&IndexedPage> = stored.values().collect();
        let weighed = self.weighed(&query, &all);
        let found = all.iter().filter(|page| self.matches(&query, page));
        let mut ranked: Vec<(f32, &IndexedPage)> =
            found.map(|page| (self.score(&weighed, page), *page)).collect();
        let total = ranked.len() as u64;
        if self.has(Fault::TiesBackwards) {
            ranked.reverse();
        }
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let groups = match search.fold {
            true if self.has(Fault::FoldsEachPart) => self.groups(&ranked[search.offset.min(ranked.len())..]),
            true => self.groups(&ranked),
            false => ranked.iter().map(|hit| Group::alone(*hit)).collect(),
        };
        let skipped = if self.has(Fault::FoldsEachPart) && search.fold { 0 } else { search.offset };
        let marked = marked(&query);
        let hits = groups.iter().skip(skipped).take(search.limit).map(|group| {
            let duplicates = group.duplicates.iter().map(|((_, page), distance)| Duplicate {
                url: page.url.clone(),
                title: page.title.clone(),
                distance: *distance,
            });
            Hit::new(group.lead.1.clone(), group.lead.0, &marked, duplicates.collect())
        });
        let hits = hits.collect();
        let next_offset = match self.fault {
            Fault::GoesOnForEver if search.limit > 0 && search.offset < Search::MOST_HITS => {
                Some(search.offset + search.limit)
            }
            _ => search.next_offset(groups.len()),
        };
        let total = if self.has(Fault::TotalOfGroups) { groups.len() as u64 } else { total };
        Ok(Results { total, hits, next_offset })
    }

    async fn get(&self, _: &str) -> Result<Option<IndexedPage>, StoreError> {
        Err(StoreError::Closed)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        Err(StoreError::Closed)
    }

    async fn scan(&self, _: Option<&str>, _: usize) -> Result<Vec<IndexedPage>, StoreError> {
        Err(StoreError::Closed)
    }

    async fn matching(&self, _: &Query, _: Option<&str>, _: usize) -> Result<Vec<IndexedPage>, StoreError> {
        Err(StoreError::Closed)
    }

    async fn remove(&self, _: &[String], _: Option<Timestamp>) -> Result<u64, StoreError> {
        Err(StoreError::Closed)
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub(crate) struct OracleHarness(Oracle);

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        Self(Oracle { pages: Arc::default(), fault })
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.0.clone())
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.0.clone())
    }
}
