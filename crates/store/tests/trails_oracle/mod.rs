//! The test oracle: the trails as simply as they can be said, with faults that can be switched on.

use crawlway_store::{End, StoreError, Timestamp, TrailEntry, Trails, conformance::trails::Harness};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

crawlway_conformance::faults! {
    DropsErrors,
    NotesAreErrors,
    FindsItemsBySubject,
    RefusesEmpty,
    OrderOfAdding,
    LatestFirst,
    SortsWithinOneTime,
    FoldsCase,
    SubjectEntriesOnly,
    OneSubjectPerItem,
    OldestItemFirst,
    SubjectTimesOnly,
    LimitsEntries,
    TrimsTexts,
    RefusesNul,
    KeepsAThousand,
    RetriesClose,
    DeadStaysOpen,
    EndsAreFinal,
    LastAddedCounts,
    TiesStayOpen,
    OrderWithoutCase,
    OpenWithoutLimit,
    ExpiresTheTimeToo,
    ExpiresWithoutLimit,
    ExpiresLatestFirst,
    ExpiresByAdding,
    RemembersOpenItems,
    HandlesApart,
    LosesEverything,
    RacesItself,
}

#[derive(Clone)]
struct Oracle {
    entries: Arc<Mutex<Vec<TrailEntry>>>,
    ever_open: Arc<Mutex<Vec<String>>>,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(fault: Fault) -> Self {
        Self { entries: Arc::default(), ever_open: Arc::default(), fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn entries(&self) -> MutexGuard<'_, Vec<TrailEntry>> {
        self.entries.lock().expect("no panic under the lock")
    }

    fn is(&self, one: &str, other: &str) -> bool {
        one == other || self.has(Fault::FoldsCase) && one.to_lowercase() == other.to_lowercase()
    }

    fn trail(&self, entries: &[TrailEntry], item: &str) -> Vec<TrailEntry> {
        let mut trail: Vec<TrailEntry> =
            entries.iter().filter(|entry| self.is(&entry.item, item)).cloned().collect();
        match self.fault {
            Fault::OrderOfAdding => {}
            Fault::LatestFirst => trail.sort_by_key(|entry| std::cmp::Reverse(entry.at)),
            Fault::SortsWithinOneTime => trail.sort_by_key(|entry| (entry.at, entry.outcome.clone())),
            _ => trail.sort_by_key(|entry| entry.at),
        }
        trail
    }

    fn closes(&self, end: End) -> bool {
        match self.fault {
            Fault::RetriesClose => end.closes() || end == End::Retried,
            Fault::DeadStaysOpen => end == End::Done,
            _ => end.closes(),
        }
    }

    fn is_open(&self, trail: &[TrailEntry]) -> bool {
        let last = |closes| {
            let times = trail.iter().filter(|entry| self.closes(entry.end) == closes);
            times.map(|entry| entry.at).max()
        };
        let (goes_on, ends): (Option<Timestamp>, Option<Timestamp>) = (last(false), last(true));
        match self.fault {
            Fault::EndsAreFinal => ends.is_none(),
            Fault::TiesStayOpen => goes_on >= ends && goes_on.is_some(),
            _ => goes_on > ends,
        }
    }

    fn cut(&self, mut entry: TrailEntry) -> TrailEntry {
        match self.fault {
            Fault::DropsErrors => entry.error = None,
            Fault::NotesAreErrors => entry.error = entry.error.or(entry.note.take()),
            Fault::TrimsTexts => entry.outcome = entry.outcome.trim().to_owned(),
            _ => {}
        }
        entry
    }
}

#[async_trait::async_trait]
impl Trails for Oracle {
    async fn record(&self, entries: &[TrailEntry]) -> Result<(), StoreError> {
        let nul = |entry: &TrailEntry| entry.error.as_ref().is_some_and(|error| error.contains('\0'));
        if self.has(Fault::RefusesEmpty) && entries.is_empty()
            || self.has(Fault::RefusesNul) && entries.iter().any(nul)
        {
            return Err(StoreError::Invalid { problem: "cannot be stored".to_owned() });
        }
        let most = if self.has(Fault::KeepsAThousand) { 1000 } else { usize::MAX };
        let added = entries.iter().take(most).map(|entry| self.cut(entry.clone()));
        if self.has(Fault::RacesItself) {
            let mut all = self.entries().clone();
            tokio::time::sleep(Duration::from_millis(1)).await;
            all.extend(added);
            *self.entries() = all;
            return Ok(());
        }
        self.entries().extend(added);
        Ok(())
    }

    async fn of_item(&self, item: &str) -> Result<Vec<TrailEntry>, StoreError> {
        if self.has(Fault::FindsItemsBySubject) {
            let all = self.entries();
            return Ok(all.iter().filter(|e| e.subject.as_deref() == Some(item)).cloned().collect());
        }
        Ok(self.trail(&self.entries(), item))
    }

    async fn of_subject(&self, subject: &str, most: usize) -> Result<Vec<Vec<TrailEntry>>, StoreError> {
        let entries = self.entries();
        let about = |entry: &TrailEntry| entry.subject.as_deref() == Some(subject);
        let mut latest: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| about(entry)) {
            if self.has(Fault::OneSubjectPerItem)
                && !self.trail(&entries, &entry.item).last().is_some_and(about)
            {
                continue;
            }
            let own = entries.iter().filter(|other| other.item == entry.item);
            let own = own.filter(|other| !self.has(Fault::SubjectTimesOnly) || about(other));
            latest.insert(&entry.item, own.map(|other| other.at).max().unwrap_or_default());
        }
        let mut items: Vec<(&str, Timestamp)> = latest.into_iter().collect();
        items.sort_by_key(|(_, at)| std::cmp::Reverse(*at));
        if self.has(Fault::OldestItemFirst) {
            items.reverse();
        }
        let mut trails: Vec<Vec<TrailEntry>> =
            items.into_iter().take(most).map(|(item, _)| self.trail(&entries, item)).collect();
        if self.has(Fault::SubjectEntriesOnly) {
            trails.iter_mut().for_each(|trail| trail.retain(about));
        }
        if self.has(Fault::LimitsEntries) {
            trails.iter_mut().for_each(|trail| trail.truncate(most));
        }
        Ok(trails)
    }

    async fn open(&self, most: usize) -> Result<Vec<String>, StoreError> {
        let entries = self.entries();
        let mut items: Vec<String> = entries.iter().map(|entry| entry.item.clone()).collect();
        items.sort();
        items.dedup();
        items.retain(|item| {
            if self.has(Fault::LastAddedCounts) {
                let last = entries.iter().rfind(|entry| entry.item == *item);
                return last.is_some_and(|entry| !entry.end.closes());
            }
            self.is_open(&self.trail(&entries, item))
        });
        if self.has(Fault::RemembersOpenItems) {
            let mut ever = self.ever_open.lock().expect("no panic under the lock");
            ever.extend(items);
            ever.sort();
            ever.dedup();
            items = ever.clone();
        }
        if self.has(Fault::OrderWithoutCase) {
            items.sort_by_key(|item| item.to_lowercase());
        }
        let most = if self.has(Fault::OpenWithoutLimit) { usize::MAX } else { most };
        items.truncate(most);
        Ok(items)
    }

    async fn expire(&self, before: Timestamp, most: usize) -> Result<u64, StoreError> {
        let mut entries = self.entries();
        let too = self.has(Fault::ExpiresTheTimeToo);
        let old = |entry: &TrailEntry| entry.at < before || too && entry.at == before;
        let mut places: Vec<usize> = (0..entries.len()).filter(|place| old(&entries[*place])).collect();
        match self.fault {
            Fault::ExpiresLatestFirst => places.sort_by_key(|place| std::cmp::Reverse(entries[*place].at)),
            Fault::ExpiresByAdding => {}
            _ => places.sort_by_key(|place| entries[*place].at),
        }
        if !self.has(Fault::ExpiresWithoutLimit) {
            places.truncate(most);
        }
        let mut place = 0;
        entries.retain(|_| {
            place += 1;
            !places.contains(&(place - 1))
        });
        Ok(places.len() as u64)
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
    async fn fresh(&mut self) -> Arc<dyn Trails> {
        Arc::new(self.oracle.clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Trails>> {
        if self.oracle.has(Fault::HandlesApart) {
            return Some(Arc::new(Oracle::new(Fault::HandlesApart)));
        }
        Some(Arc::new(self.oracle.clone()))
    }

    async fn reopen(&mut self) -> Arc<dyn Trails> {
        if self.oracle.has(Fault::LosesEverything) {
            self.oracle.entries().clear();
        }
        Arc::new(self.oracle.clone())
    }
}
