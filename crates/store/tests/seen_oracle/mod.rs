//! The test oracle: the seen URLs as simply as they can be said, with a clock that is moved by hand and faults that
//! can be switched on.

use crawlway_store::{
    ManualClock, SeenUrls, StoreError, Timestamp,
    conformance::seen::Harness,
    seen::{Claim, Claimed, Seen},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

crawlway_conformance::faults! {
    BlocksEverything,
    MarkKeepsNothing,
    GivesToAnyone,
    ClaimsNeverEnd,
    ClaimsEndEarly,
    NeverRenews,
    NeverShortens,
    RefusedClaimsRenew,
    OwnerCountsAfterTheEnd,
    ReleaseDoesNothing,
    AnyoneReleases,
    ReleaseForgetsSeen,
    ReleaseNeedsAClaim,
    EveryMarkCounts,
    NamesTheAsker,
    OwnSeenIsOurs,
    MarksOnlyClaims,
    MarkKeepsClaims,
    MarkNeedsTheOwner,
    FirstNoteCounts,
    LongestNoteCounts,
    SecondMarkForgets,
    NotesNeverEnd,
    ZeroIsForEver,
    RefusesLongTtls,
    KnowsSeenOnly,
    KnowsWhatIsOver,
    ForgetsSeenOnly,
    ForgetCountsAll,
    SweepsEverything,
    SweepsTooMany,
    RefusesEmpty,
    SortsAnswers,
    LastOfABatchWins,
    FoldsCase,
    CutsLongUrls,
    TrimsOwners,
    ForgetsTheEndOfABatch,
    HandlesApart,
    LosesEverything,
    RacesItself,
    BlocksOpposites,
}

#[derive(Debug, Clone)]
struct Record {
    owner: String,
    seen: bool,
    at: Timestamp,
    until: Timestamp,
}

#[derive(Clone)]
struct Oracle {
    records: Arc<Mutex<BTreeMap<String, Record>>>,
    busy: Arc<Mutex<bool>>,
    clock: Arc<ManualClock>,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(clock: Arc<ManualClock>, fault: Fault) -> Self {
        Self { records: Arc::default(), busy: Arc::default(), clock, fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().expect("no panic under the lock")
    }

    fn key(&self, url: &str) -> String {
        match self.fault {
            Fault::FoldsCase => url.to_lowercase(),
            Fault::CutsLongUrls => url.chars().take(2048).collect(),
            _ => url.to_owned(),
        }
    }

    fn owner(&self, owner: &str) -> String {
        if self.has(Fault::TrimsOwners) { owner.trim().to_owned() } else { owner.to_owned() }
    }

    /// Whether this record still counts.
    fn counts(&self, record: &Record) -> bool {
        let now = self.clock.now();
        match (self.fault, record.seen) {
            (Fault::ClaimsNeverEnd, false) | (Fault::NotesNeverEnd, true) => true,
            (Fault::ClaimsEndEarly, false) => record.until > now + Duration::from_secs(30),
            _ => record.until > now,
        }
    }

    fn answer(
        &self,
        records: &mut BTreeMap<String, Record>,
        claim: &Claim,
        term: Duration,
        late: bool,
    ) -> Claimed {
        let (key, owner) = (self.key(&claim.url), self.owner(&claim.owner));
        let at = self.clock.now();
        let until = at + term;
        let known = records.get_mut(&key);
        let counting = known.filter(|record| {
            let lives = record.until > self.clock.now();
            let own_for_ever =
                self.has(Fault::OwnerCountsAfterTheEnd) && !record.seen && record.owner != owner && !lives;
            let outdated =
                record.seen && at.since(record.at) >= claim.max_age && !self.has(Fault::EveryMarkCounts);
            (self.counts(record) && !outdated) || own_for_ever
        });
        let Some(record) = counting else {
            records.insert(key, Record { owner, seen: false, at, until });
            return Claimed::Ours;
        };
        let told = if self.has(Fault::NamesTheAsker) { owner.clone() } else { record.owner.clone() };
        if record.seen {
            if self.has(Fault::OwnSeenIsOurs) && record.owner == owner {
                *record = Record { owner, seen: false, at, until };
                return Claimed::Ours;
            }
            return Claimed::Seen { owner: told, at: Some(record.at), until: record.until };
        }
        if record.owner == owner
            || self.has(Fault::GivesToAnyone)
            || (late && self.has(Fault::LastOfABatchWins))
        {
            record.owner = owner;
            record.until = match self.fault {
                Fault::NeverRenews => record.until,
                Fault::NeverShortens => record.until.max(until),
                _ => until,
            };
            return Claimed::Ours;
        }
        if self.has(Fault::RefusedClaimsRenew) {
            record.until = until;
        }
        Claimed::Taken { owner: told, until: record.until }
    }
}

fn refused<T>(problem: &str) -> Result<T, StoreError> {
    Err(StoreError::Invalid { problem: problem.to_owned() })
}

#[async_trait::async_trait]
impl SeenUrls for Oracle {
    async fn claim(&self, claims: &[Claim], term: Duration) -> Result<Vec<Claimed>, StoreError> {
        if claims.is_empty() && self.has(Fault::RefusesEmpty) {
            return refused("nothing was asked");
        }
        if self.has(Fault::RacesItself) {
            // Looks first and writes later, as if nobody else could come in between.
            let before = self.records().clone();
            tokio::time::sleep(Duration::from_millis(2)).await;
            let mut seen = before;
            let answers = claims.iter().map(|claim| self.answer(&mut seen, claim, term, false)).collect();
            self.records().extend(seen);
            return Ok(answers);
        }
        if self.has(Fault::BlocksOpposites) {
            {
                let mut busy = self.busy.lock().expect("no panic under the lock");
                if *busy {
                    return Err(StoreError::Unavailable { detail: "deadlock detected".to_owned() });
                }
                *busy = true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            *self.busy.lock().expect("no panic under the lock") = false;
        }
        if self.has(Fault::BlocksEverything) {
            let until = self.clock.now() + term;
            return Ok(claims.iter().map(|_| Claimed::Taken { owner: String::new(), until }).collect());
        }
        let mut records = self.records();
        let mut answers: Vec<Claimed> = Vec::new();
        for (number, claim) in claims.iter().enumerate() {
            let late = claims[..number].iter().any(|earlier| earlier.url == claim.url);
            if number >= 10_000 && self.has(Fault::ForgetsTheEndOfABatch) {
                answers.push(Claimed::Ours);
                continue;
            }
            answers.push(self.answer(&mut records, claim, term, late));
        }
        if self.has(Fault::SortsAnswers) {
            answers.sort_by_key(|answer| *answer != Claimed::Ours);
        }
        Ok(answers)
    }

    async fn mark(&self, seen: &[Seen]) -> Result<(), StoreError> {
        let mut records = self.records();
        for note in seen {
            if note.ttl > Duration::from_secs(100 * 365 * 86_400) && self.has(Fault::RefusesLongTtls) {
                return refused("too long");
            }
            let (key, owner) = (self.key(&note.url), self.owner(&note.owner));
            let known = records.get(&key).cloned();
            let claimed_by = known.as_ref().filter(|known| !known.seen).map(|known| known.owner.clone());
            let mut until = self.clock.now() + note.ttl;
            match (self.fault, &known) {
                (Fault::MarkKeepsNothing, _) | (Fault::MarksOnlyClaims, None) => continue,
                (Fault::MarkNeedsTheOwner, _) if claimed_by.is_some_and(|by| by != owner) => continue,
                (Fault::FirstNoteCounts, Some(known)) if known.seen => continue,
                (Fault::LongestNoteCounts, Some(known)) if known.seen && known.until > until => continue,
                (Fault::SecondMarkForgets, Some(known)) if known.seen => {
                    records.remove(&key);
                    continue;
                }
                (Fault::MarkKeepsClaims, Some(known)) if !known.seen => until = until.max(known.until),
                (Fault::ZeroIsForEver, _) if note.ttl.is_zero() => until = Timestamp::from_millis(u64::MAX),
                _ => {}
            }
            records.insert(key, Record { owner, seen: true, at: self.clock.now(), until });
        }
        Ok(())
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let mut records = self.records();
        for claim in claims {
            let key = self.key(&claim.url);
            let Some(record) = records.get(&key) else {
                if self.has(Fault::ReleaseNeedsAClaim) {
                    return refused("there is no such claim");
                }
                continue;
            };
            let own = record.owner == self.owner(&claim.owner) || self.has(Fault::AnyoneReleases);
            let held = !record.seen || self.has(Fault::ReleaseForgetsSeen);
            if own && held && !self.has(Fault::ReleaseDoesNothing) {
                records.remove(&key);
            }
        }
        Ok(())
    }

    async fn known(&self, urls: &[String]) -> Result<Vec<bool>, StoreError> {
        let records = self.records();
        let known = |url: &String| {
            let Some(record) = records.get(&self.key(url)) else { return false };
            match self.fault {
                Fault::KnowsSeenOnly => record.seen && self.counts(record),
                Fault::KnowsWhatIsOver => true,
                _ => self.counts(record),
            }
        };
        Ok(urls.iter().map(known).collect())
    }

    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError> {
        let mut records = self.records();
        let mut known = 0;
        for url in urls {
            let key = self.key(url);
            if self.has(Fault::ForgetsSeenOnly) && records.get(&key).is_some_and(|record| !record.seen) {
                continue;
            }
            let counted = records.remove(&key).is_some_and(|record| self.counts(&record));
            known += u64::from(counted || self.has(Fault::ForgetCountsAll));
        }
        Ok(known)
    }

    async fn sweep(&self, most: usize) -> Result<u64, StoreError> {
        let mut records = self.records();
        let now = self.clock.now();
        let all = self.has(Fault::SweepsEverything);
        let most = if self.has(Fault::SweepsTooMany) { usize::MAX } else { most };
        let over: Vec<String> = records
            .iter()
            .filter(|(_, record)| all || record.until <= now)
            .map(|(key, _)| key.clone())
            .take(most)
            .collect();
        for key in &over {
            records.remove(key);
        }
        Ok(over.len() as u64)
    }
}

pub(crate) struct OracleHarness {
    clock: Arc<ManualClock>,
    oracle: Oracle,
}

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        Self { oracle: Oracle::new(clock.clone(), fault), clock }
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self) -> Arc<dyn SeenUrls> {
        Arc::new(self.oracle.clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn SeenUrls>> {
        if self.oracle.has(Fault::HandlesApart) {
            return Some(Arc::new(Oracle::new(self.clock.clone(), Fault::HandlesApart)));
        }
        Some(Arc::new(self.oracle.clone()))
    }

    async fn reopen(&mut self) -> Arc<dyn SeenUrls> {
        if self.oracle.has(Fault::LosesEverything) {
            self.oracle.records().clear();
        }
        Arc::new(self.oracle.clone())
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
    }
}
