//! The test oracle: the frontier as simply as it can be said, with a clock that is moved by hand and faults that can
//! be switched on.

mod endings;
mod faults;
mod world;

pub(crate) use faults::Fault;

use crawlway_store::{
    Frontier, FrontierPolicy, ManualClock, StoreError, Timestamp,
    conformance::frontier::Harness,
    frontier::{
        Added, Crawl, CrawlId, CrawlState, DeadUrl, DeadUrls, Ending, Entries, Entry, EntryFilter,
        EntryState, NewCrawl, NewTerms, NewUrl, PageLinks, Receipt, Reopen, SettledAs, Taken,
    },
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use world::World;

#[derive(Clone)]
struct Oracle {
    world: Arc<Mutex<World>>,
    clock: Arc<ManualClock>,
    policy: FrontierPolicy,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(clock: Arc<ManualClock>, policy: FrontierPolicy, fault: Fault) -> Self {
        Self { world: Arc::new(Mutex::new(World::new(policy, fault))), clock, policy, fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sorted<T>(&self, mut answers: Vec<T>) -> Vec<T> {
        if self.has(Fault::AnswersReversed) {
            answers.reverse();
        }
        answers
    }

    /// Has each of the dead that is asked for end like this, and says which were dead.
    fn each_dead(&self, items: &[String], any: bool, then: impl Fn(&mut World, usize)) -> Vec<bool> {
        let mut world = self.world();
        let mut answers = Vec::new();
        for item in items {
            let is_it = |row: &world::Row| row.new.item == *item && (any || row.state == EntryState::Dead);
            let place = world.rows.iter().position(is_it);
            if let Some(place) = place {
                then(&mut world, place);
            }
            answers.push(place.is_some());
        }
        answers
    }
}

fn refused<T>(problem: &str) -> Result<T, StoreError> {
    Err(StoreError::Invalid { problem: problem.to_owned() })
}

#[async_trait::async_trait]
impl Frontier for Oracle {
    fn policy(&self) -> FrontierPolicy {
        self.policy
    }

    async fn open_crawl(&self, crawl: &NewCrawl) -> Result<(Crawl, bool), StoreError> {
        let mut world = self.world();
        let is_new = world.open(crawl, self.now());
        Ok((world.crawl(&crawl.id).expect("it was just opened"), is_new))
    }

    async fn crawl(&self, id: &CrawlId) -> Result<Option<Crawl>, StoreError> {
        Ok(self.world().crawl(id))
    }

    async fn crawls(&self, after: Option<&CrawlId>, most: usize) -> Result<Vec<Crawl>, StoreError> {
        let world = self.world();
        let mut all: Vec<Crawl> = world.crawls.keys().filter_map(|id| world.crawl(id)).collect();
        all.sort_by_key(|crawl| std::cmp::Reverse(crawl.created_at));
        if self.has(Fault::OldestCrawlFirst) {
            all.reverse();
        }
        let start = after.and_then(|after| all.iter().position(|crawl| crawl.id == *after));
        let start = start.map_or(0, |place| place + 1);
        Ok(all.into_iter().skip(start).take(most).collect())
    }

    async fn set_state(&self, id: &CrawlId, state: CrawlState) -> Result<Option<Crawl>, StoreError> {
        let (mut world, now) = (self.world(), self.now());
        let Some(crawl) = world.crawl(id) else { return Ok(None) };
        let by_itself = matches!(state, CrawlState::Finished | CrawlState::Limited);
        if by_itself && !self.has(Fault::FinishesByHand) {
            return refused("it finishes by itself");
        }
        let allowed = match crawl.state {
            CrawlState::Finished | CrawlState::Limited => self.has(Fault::FinishedCanRun),
            CrawlState::Cancelled => state == CrawlState::Running || self.has(Fault::CancelledCanBePaused),
            _ => true,
        };
        if allowed {
            world.set(id, state, now);
            if self.has(Fault::PauseLosesFlights) && state != CrawlState::Running {
                world.lose(true, now);
            }
        }
        Ok(world.crawl(id))
    }

    async fn set_terms(&self, id: &CrawlId, terms: &NewTerms) -> Result<Option<Crawl>, StoreError> {
        Ok(self.world().set_terms(id, terms, self.now()))
    }

    async fn rename_crawl(&self, id: &CrawlId, to: &CrawlId) -> Result<bool, StoreError> {
        let mut world = self.world();
        if world.crawls.contains_key(to) && !self.has(Fault::RenameTakesAny) {
            return Ok(false);
        }
        let Some(mut crawl) = world.crawls.remove(id) else { return Ok(false) };
        crawl.new.id = to.clone();
        world.crawls.insert(to.clone(), crawl);
        world.rows.iter_mut().filter(|row| row.crawl == *id).for_each(|row| row.crawl = to.clone());
        world.index_again();
        Ok(true)
    }

    async fn delete_crawl(&self, id: &CrawlId) -> Result<bool, StoreError> {
        let mut world = self.world();
        let deleted = world.crawls.remove(id).is_some();
        if !self.has(Fault::DeleteKeepsUrls) {
            // Receipts name places, so that none may become another's.
            let gone = CrawlId::new("deleted").expect("an allowed name");
            for row in world.rows.iter_mut().filter(|row| row.crawl == *id) {
                *row = world::Row { crawl: gone.clone(), state: EntryState::Done, ..row.clone() };
                row.new.url.clear();
            }
        }
        world.index_again();
        Ok(deleted)
    }

    async fn reopen(&self, id: &CrawlId, which: &Reopen) -> Result<u64, StoreError> {
        Ok(self.world().reopen(id, which, self.now()))
    }

    async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Result<Vec<Added>, StoreError> {
        let mut world = self.world();
        if self.has(Fault::RefusesEmpty) && urls.is_empty() {
            return refused("nothing was asked");
        }
        if self.has(Fault::RefusesLarge) && urls.len() > 1000 {
            return refused("too many at once");
        }
        if self.has(Fault::LosesLinks) && urls.first().is_some_and(|url| url.depth == 3) {
            return Ok(vec![Added::New; urls.len()]);
        }
        if !world.crawls.contains_key(crawl) && !self.has(Fault::UnknownCrawlIsMade) {
            return refused("there is no such crawl");
        }
        let start = world.rows.len();
        Ok(urls.iter().map(|url| world.add(crawl, url, start, self.now())).collect())
    }

    async fn next(&self, max: usize, per_host: u32) -> Result<Vec<Taken>, StoreError> {
        let now = self.now();
        if self.has(Fault::RacesItself) {
            // Looks first and takes later, as if nobody else could come in between.
            let rows = self.world().rows.clone();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut world = self.world();
            let meanwhile = std::mem::replace(&mut world.rows, rows);
            let taken = world.next(max, per_host, now);
            let mine: Vec<usize> =
                taken.iter().filter_map(|t| usize::try_from(t.receipt.entry).ok()).collect();
            for (place, row) in meanwhile.into_iter().enumerate() {
                if place >= world.rows.len() {
                    world.rows.push(row);
                } else if !mine.contains(&place) {
                    world.rows[place] = row;
                }
            }
            return Ok(taken);
        }
        let mut world = self.world();
        world.lose(false, now);
        Ok(world.next(max, per_host, now))
    }

    async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.world().due())
    }

    async fn settle(&self, endings: &[(Receipt, Ending)]) -> Result<Vec<Option<SettledAs>>, StoreError> {
        let (mut world, now) = (self.world(), self.now());
        let nul = |(_, ending): &(Receipt, Ending)| format!("{ending:?}").contains("\\0");
        let past =
            |(_, ending): &(Receipt, Ending)| matches!(ending, Ending::Defer { until } if *until <= now);
        if self.has(Fault::RefusesNul) && endings.iter().any(nul) {
            return refused("cannot be stored");
        }
        if self.has(Fault::RefusesThePast) && endings.iter().any(past) {
            return refused("that is past");
        }
        if self.has(Fault::LateIsLost) {
            world.lose(false, now);
        }
        let answers = endings.iter().map(|(receipt, ending)| world.settle(*receipt, ending, now)).collect();
        world.finish(now);
        Ok(self.sorted(answers))
    }

    async fn alone(&self, receipt: Receipt) -> Result<bool, StoreError> {
        Ok(self.world().alone(receipt))
    }

    async fn extend(&self, receipts: &[Receipt]) -> Result<Vec<bool>, StoreError> {
        let (mut world, now) = (self.world(), self.now());
        Ok(self.sorted(receipts.iter().map(|receipt| world.extend(*receipt, now)).collect()))
    }

    async fn take_back(&self) -> Result<u64, StoreError> {
        Ok(self.world().lose(true, self.now()))
    }

    async fn insist(&self, crawl: &CrawlId, url: &str) -> Result<bool, StoreError> {
        let (mut world, now) = (self.world(), self.now());
        let Some(row) = world.row_of(crawl, url) else { return Ok(false) };
        if row.new.insist && !self.has(Fault::InsistsAgain)
            || self.has(Fault::InsistOnDoneOnly) && row.state != EntryState::Done
        {
            return Ok(false);
        }
        row.new.insist = true;
        let item = row.new.item.clone();
        let place = world.rows.iter().position(|row| row.new.item == item).expect("it was just there");
        if world.rows[place].state != EntryState::InFlight || !self.has(Fault::InsistLeavesFlights) {
            world.wait_anew(place, now, false);
        }
        if !self.has(Fault::InsistLeavesFinished) {
            world.resume(crawl, now);
        }
        Ok(true)
    }

    async fn find(&self, url: &str) -> Result<Vec<Entry>, StoreError> {
        let world = self.world();
        let mut found: Vec<&world::Row> = world.rows.iter().filter(|row| row.new.url == url).collect();
        found.sort_by_key(|row| std::cmp::Reverse(world.crawls[&row.crawl].created_at));
        if self.has(Fault::OldestCrawlFirst) {
            found.reverse();
        }
        Ok(found.into_iter().map(World::entry).collect())
    }

    async fn links(&self, url: &str) -> Result<Option<String>, StoreError> {
        let world = self.world();
        let with_links = world.rows.iter().filter(|row| row.new.url == url && row.facts.links.is_some());
        Ok(with_links.max_by_key(|row| row.facts.crawled_at).and_then(|row| row.facts.links.clone()))
    }

    async fn pages(&self, crawl: &CrawlId, after: u64, most: usize) -> Result<Vec<PageLinks>, StoreError> {
        let world = self.world();
        let page = |(place, row): (u64, &world::Row)| {
            let links = row.facts.links.clone().filter(|_| row.crawl == *crawl && place > after)?;
            let (item, url) = (row.new.item.clone(), row.new.url.clone());
            Some(PageLinks { place, item, url, depth: row.new.depth, chain: row.new.chain, links })
        };
        Ok((1..).zip(&world.rows).filter_map(page).take(most).collect())
    }

    async fn entries(
        &self,
        crawl: &CrawlId,
        filter: &EntryFilter,
        after: Option<u64>,
        most: usize,
    ) -> Result<Entries, StoreError> {
        let world = self.world();
        let fits = |(place, row): &(u64, &world::Row)| {
            let done = row.state == EntryState::Done;
            let outcome = filter.outcome.is_none()
                || done && row.outcome == filter.outcome
                || self.has(Fault::ListsAnyOutcome);
            row.crawl == *crawl
                && after.is_none_or(|after| *place > after)
                && filter.state.is_none_or(|state| row.state == state)
                && outcome
        };
        let mut found: Vec<_> = (1..).zip(&world.rows).filter(fits).take(most + 1).collect();
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|(place, _)| *place);
        Ok(Entries { entries: found.into_iter().map(|(_, row)| World::entry(row)).collect(), next })
    }

    async fn left_out_for(&self, crawl: &CrawlId, url: &str, most: usize) -> Result<Vec<Entry>, StoreError> {
        let world = self.world();
        let left_out = |row: &&world::Row| {
            row.crawl == *crawl
                && row.state == EntryState::Done
                && !row.new.insist
                && row.facts.canonical.as_deref() == Some(url)
        };
        Ok(world.rows.iter().filter(left_out).take(most).map(World::entry).collect())
    }

    async fn dead(
        &self,
        crawl: Option<&CrawlId>,
        after: Option<&str>,
        most: usize,
    ) -> Result<DeadUrls, StoreError> {
        let world = self.world();
        let dead = world.rows.iter().filter(|row| row.state == EntryState::Dead);
        let dead = dead.filter(|row| crawl.is_none_or(|id| row.crawl == *id) || self.has(Fault::DeadOfAll));
        let mut urls: Vec<DeadUrl> = dead.map(World::dead_url).collect();
        let by_item = self.has(Fault::DeadByItem);
        let key = |dead: &DeadUrl| {
            let at = if by_item { 0 } else { dead.dead_at.as_millis() };
            format!("{at:020} {}", dead.item)
        };
        urls.sort_by_key(key);
        if let Some(after) = after {
            if self.has(Fault::CursorMustExist) && !urls.iter().any(|dead| key(dead) == after) {
                return Ok(DeadUrls { urls: Vec::new(), next: None });
            }
            urls.retain(|dead| key(dead).as_str() > after);
        }
        let more = urls.len() > most;
        urls.truncate(most);
        let next = urls.last().filter(|_| more).map(key);
        Ok(DeadUrls { urls, next })
    }

    async fn replay(&self, items: &[String]) -> Result<Vec<bool>, StoreError> {
        let now = self.now();
        let keeps = self.has(Fault::ReplayKeepsAttempts);
        Ok(self.each_dead(items, self.has(Fault::ReplaysAnything), |world, place| {
            world.wait_anew(place, now, keeps);
            world.rows[place].replays += u32::from(!self.has(Fault::ReplaysAreNotCounted));
            let crawl = world.rows[place].crawl.clone();
            if !self.has(Fault::ReplayLeavesFinished) {
                world.resume(&crawl, now);
            }
        }))
    }

    async fn drop_dead(&self, items: &[String]) -> Result<Vec<bool>, StoreError> {
        Ok(self.each_dead(items, false, |world, place| {
            if self.has(Fault::DropForgets) {
                world.rows[place].new.url.clear();
                world.rows[place].crawl = CrawlId::new("nowhere").expect("an allowed id");
            }
            world.rows[place].state = EntryState::Done;
        }))
    }
}

pub(crate) struct OracleHarness {
    clock: Arc<ManualClock>,
    oracle: Option<Oracle>,
    fault: Fault,
}

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { clock: ManualClock::at(Timestamp::from_millis(1_700_000_000_000)), oracle: None, fault }
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self, policy: FrontierPolicy) -> Arc<dyn Frontier> {
        let oracle = Oracle::new(self.clock.clone(), policy, self.fault);
        self.oracle = Some(oracle.clone());
        Arc::new(oracle)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Frontier>> {
        let first = self.oracle.clone()?;
        if self.fault == Fault::HandlesApart {
            let apart = Oracle::new(self.clock.clone(), first.policy, self.fault);
            for crawl in first.world().crawls.values() {
                apart.world().open(&crawl.new, self.clock.now());
            }
            return Some(Arc::new(apart));
        }
        Some(Arc::new(first))
    }

    async fn reopen(&mut self) -> Arc<dyn Frontier> {
        let oracle = self.oracle.clone().expect("it was opened before");
        match self.fault {
            Fault::LosesBudgets => {
                oracle.world().crawls.values_mut().for_each(|crawl| crawl.budgets.clear());
            }
            Fault::LosesSuspicion => oracle.world().rows.iter_mut().for_each(|row| row.alone = false),
            Fault::ReopenTakesBack => drop(oracle.world().lose(true, self.clock.now())),
            _ => {}
        }
        Arc::new(oracle)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
    }
}
