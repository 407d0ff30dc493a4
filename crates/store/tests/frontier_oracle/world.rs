//! The frontier as simply as it can be said: all URLs in one list, looked through from the beginning.

use super::faults::Fault;
use crawlway_store::frontier::{
    Added, Crawl, CrawlCounts, CrawlId, CrawlState, DeadUrl, Entry, EntryState, NewCrawl, NewUrl, PageFacts,
    Receipt, TOO_MANY_WAITING, Taken, Validators,
};
use crawlway_store::{FrontierPolicy, Timestamp, suspects::Places};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone)]
pub(super) struct CrawlRow {
    pub(super) new: NewCrawl,
    pub(super) revision: u64,
    pub(super) state: CrawlState,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) left_out: BTreeMap<String, u64>,
    pub(super) budgets: HashMap<String, u64>,
    pub(super) fetches: u64,
    pub(super) takings: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) crawl: CrawlId,
    pub(super) new: NewUrl,
    pub(super) added_at: Timestamp,
    pub(super) state: EntryState,
    pub(super) due: Option<Timestamp>,
    pub(super) lease_until: Timestamp,
    pub(super) taking: u64,
    pub(super) failures: u32,
    pub(super) attempts: u32,
    pub(super) losses: u32,
    pub(super) solo_crashes: u32,
    pub(super) alone: bool,
    pub(super) worker_lost: bool,
    pub(super) replays: u32,
    pub(super) first_error: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) facts: PageFacts,
    pub(super) reason: String,
    pub(super) dead_at: Timestamp,
}

pub(super) struct World {
    pub(super) crawls: BTreeMap<CrawlId, CrawlRow>,
    pub(super) rows: Vec<Row>,
    pub(super) known: HashMap<(String, String), usize>,
    pub(super) rests: HashMap<(CrawlId, String), Timestamp>,
    pub(super) takings: u64,
    pub(super) policy: FrontierPolicy,
    pub(super) fault: Fault,
}

impl World {
    pub(super) fn new(policy: FrontierPolicy, fault: Fault) -> Self {
        Self {
            crawls: BTreeMap::new(),
            rows: Vec::new(),
            known: HashMap::new(),
            rests: HashMap::new(),
            takings: 0,
            policy,
            fault,
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn key(&self, crawl: &CrawlId, url: &str) -> (String, String) {
        let crawl = if self.has(Fault::OneCrawlForAll) { "" } else { crawl.as_str() };
        let url = if self.has(Fault::FoldsCase) { url.to_lowercase() } else { url.to_owned() };
        (crawl.to_owned(), url)
    }

    pub(super) fn row_of(&mut self, crawl: &CrawlId, url: &str) -> Option<&mut Row> {
        let place = *self.known.get(&self.key(crawl, url))?;
        self.rows.get_mut(place)
    }

    /// Finds out anew which row is which URL's.
    pub(super) fn index_again(&mut self) {
        let of_row = |row: &Row| self.key(&row.crawl, &row.new.url);
        self.known = self.rows.iter().enumerate().map(|(place, row)| (of_row(row), place)).collect();
    }

    pub(super) fn text(&self, text: &str) -> String {
        if self.has(Fault::TrimsTexts) { text.trim().to_owned() } else { text.to_owned() }
    }

    pub(super) fn open(&mut self, new: &NewCrawl, now: Timestamp) -> bool {
        if self.crawls.contains_key(&new.id) {
            if self.has(Fault::OpenReplaces)
                && let Some(crawl) = self.crawls.get_mut(&new.id)
            {
                crawl.new = new.clone();
            }
            return false;
        }
        let starts_paused = self.has(Fault::StartsPaused);
        let crawl = CrawlRow {
            new: new.clone(),
            revision: now.as_millis(),
            state: if starts_paused { CrawlState::Paused } else { CrawlState::Running },
            created_at: now,
            ended_at: None,
            outcomes: BTreeMap::new(),
            left_out: BTreeMap::new(),
            budgets: HashMap::new(),
            fetches: 0,
            takings: 0,
        };
        self.crawls.insert(new.id.clone(), crawl);
        true
    }

    pub(super) fn crawl(&self, id: &CrawlId) -> Option<Crawl> {
        let alike = |(other, _): &(&CrawlId, &CrawlRow)| other.as_str().eq_ignore_ascii_case(id.as_str());
        let row = match self.fault {
            Fault::FoldsCrawlCase => self.crawls.iter().find(alike).map(|(_, row)| row),
            _ => self.crawls.get(id),
        }?;
        let mut counts = CrawlCounts {
            outcomes: row.outcomes.clone(),
            left_out: row.left_out.clone(),
            ..CrawlCounts::default()
        };
        for entry in self.rows.iter().filter(|entry| entry.crawl == row.new.id) {
            match entry.state {
                EntryState::InFlight if self.has(Fault::FlightsCountAsWaiting) => counts.waiting += 1,
                EntryState::Waiting => counts.waiting += 1,
                EntryState::InFlight => counts.in_flight += 1,
                EntryState::Done => {
                    counts.done += 1;
                    counts.fetched += u64::from(entry.facts.fetched || self.has(Fault::DoneCountsAsFetched));
                }
                EntryState::Dead => counts.dead += 1,
            }
        }
        if self.has(Fault::FetchedCountsEach) {
            counts.fetched = row.fetches;
        }
        Some(Crawl {
            id: row.new.id.clone(),
            definition: self.text(&row.new.definition),
            max_pages: row.new.max_pages,
            revision: row.revision,
            state: row.state,
            created_at: row.created_at,
            ended_at: row.ended_at,
            counts,
        })
    }

    pub(super) fn add(&mut self, crawl: &CrawlId, new: &NewUrl, batch_start: usize, now: Timestamp) -> Added {
        let key = self.key(crawl, &new.url);
        let known = self.known.get(&key).copied().filter(|place| {
            let gone = self.has(Fault::DoneIsUnknown) && self.rows[*place].state == EntryState::Done;
            let blind = self.has(Fault::BatchAddsTwice) && *place >= batch_start;
            !gone && !blind
        });
        let charge = |row: &mut CrawlRow| {
            if let Some(budget) = &new.budget {
                *row.budgets.entry(budget.kind.clone()).or_default() += 1;
            }
        };
        let fault = self.fault;
        let too_many = !new.in_any_case && self.has_too_many(crawl, &new.host);
        let Some(row) = self.crawls.get_mut(crawl) else { return Added::New };
        if let Some(place) = known {
            if fault == Fault::KnownIsCharged {
                charge(row);
            }
            if fault == Fault::AddReplaces {
                self.rows[place].new = new.clone();
            }
            return Added::Known;
        }
        if let Some(budget) = &new.budget {
            let used = row.budgets.get(&budget.kind).copied().unwrap_or_default();
            if used >= budget.most + u64::from(fault == Fault::BudgetOneMore) {
                let reason =
                    if fault == Fault::LeftOutUnderOneName { "budget" } else { budget.reason.as_str() };
                *row.left_out.entry(reason.to_owned()).or_default() += 1;
                if fault == Fault::OverBudgetIsKnown {
                    self.known.insert(key, usize::MAX);
                }
                return Added::OverBudget;
            }
        }
        if too_many {
            *row.left_out.entry(TOO_MANY_WAITING.to_owned()).or_default() += 1;
            return Added::OverBudget;
        }
        charge(row);
        let mut new = new.clone();
        if fault == Fault::ForgetsDepth {
            new.depth = 0;
        }
        self.known.insert(key, self.rows.len());
        self.rows.push(Row {
            crawl: crawl.clone(),
            new,
            added_at: now,
            state: EntryState::Waiting,
            due: Some(now),
            lease_until: now,
            taking: 0,
            failures: 0,
            attempts: 0,
            losses: 0,
            solo_crashes: 0,
            alone: false,
            worker_lost: false,
            replays: 0,
            first_error: None,
            last_error: None,
            outcome: None,
            facts: PageFacts::default(),
            reason: String::new(),
            dead_at: now,
        });
        if fault != Fault::AddLeavesFinished {
            self.resume(crawl, now);
        }
        Added::New
    }

    /// Whether so many URLs of a crawl, or of this host in it, wait that no more are wanted.
    fn has_too_many(&self, crawl: &CrawlId, host: &str) -> bool {
        let Some(row) = self.crawls.get(crawl).filter(|_| !self.has(Fault::WaitsWithoutEnd)) else {
            return false;
        };
        if self.has(Fault::TooManyIsFinal) && row.left_out.contains_key(TOO_MANY_WAITING) {
            return true;
        }
        let waits = |row: &&Row| {
            let flies = row.state == EntryState::InFlight && self.has(Fault::FlightsFillTheRoom);
            row.crawl == *crawl && (row.state == EntryState::Waiting || flies)
        };
        let max_pages = row.new.max_pages.filter(|_| !self.has(Fault::PageLimitKeepsAll));
        let (mut all, mut of_host) = (0, 0);
        for row in self.rows.iter().filter(waits) {
            all += 1;
            of_host += u64::from(row.new.host == host && !self.has(Fault::HostWaitsWithoutEnd));
        }
        all >= self.policy.most_waiting(max_pages) || of_host >= self.policy.most_waiting_of_host
    }

    fn rest_of(&self, row: &Row) -> Timestamp {
        self.rests.get(&(row.crawl.clone(), row.new.host.clone())).copied().unwrap_or_default()
    }

    pub(super) fn runs(&self, crawl: &CrawlId) -> bool {
        self.crawls[crawl].state == CrawlState::Running || self.has(Fault::PauseIsIgnored)
    }

    fn room(&self, id: &CrawlId) -> u64 {
        let Some(crawl) = self.crawl(id) else { return 0 };
        let Some(most) = crawl.max_pages.filter(|most| *most > 0 || !self.has(Fault::ZeroIsNoLimit)) else {
            return u64::MAX;
        };
        let used = match self.fault {
            Fault::InFlightIsFree => crawl.counts.fetched,
            Fault::LimitCountsTakings => self.crawls[id].takings,
            _ => crawl.counts.fetched + crawl.counts.in_flight,
        };
        most.saturating_sub(used)
    }

    pub(super) fn next(&mut self, max: usize, per_host: u32, now: Timestamp) -> Vec<Taken> {
        let max = max + usize::from(self.has(Fault::OneMoreThanAsked) && max > 0);
        type Host = (String, String);
        let host_of = |world: &World, row: &Row| -> Host {
            let crawl = if world.has(Fault::HostsAcrossCrawls) { "" } else { row.crawl.as_str() };
            (crawl.to_owned(), row.new.host.clone())
        };
        let mut flying: HashMap<Host, u32> = HashMap::new();
        let mut hosts: BTreeMap<Host, Vec<usize>> = BTreeMap::new();
        for (place, row) in self.rows.iter().enumerate() {
            if row.state == EntryState::InFlight && !self.has(Fault::PerCallLimit) {
                *flying.entry(host_of(self, row)).or_default() += 1;
            }
            let again = self.has(Fault::DueAgainWaits)
                && row.state == EntryState::Done
                && row.facts.crawled_at.is_some_and(|at| at < now);
            let waits = row.state == EntryState::Waiting && row.due.is_some_and(|due| due <= now) || again;
            let rested = self.rest_of(row) <= now || self.has(Fault::RestIsIgnored);
            if waits && rested && self.runs(&row.crawl) {
                hosts.entry(host_of(self, row)).or_default().push(place);
            }
        }
        let mut line: Vec<(Timestamp, Host)> = Vec::new();
        for (host, places) in &mut hosts {
            match self.fault {
                Fault::UrlsByName => places.sort_by_key(|place| self.rows[*place].new.url.clone()),
                _ => places.sort_by_key(|place| (self.rows[*place].due, *place)),
            }
            let first = &self.rows[places[0]];
            let oldest = self.has(Fault::OldestUrlFirst);
            let rest = if oldest { Timestamp::default() } else { self.rest_of(first) };
            line.push((first.due.unwrap_or_default().max(rest), host.clone()));
        }
        if !self.has(Fault::HostsByName) {
            line.sort();
        }
        let mut order: Vec<usize> = Vec::new();
        for (_, host) in &line {
            let busy = flying.get(host).copied().unwrap_or_default();
            let most = per_host.saturating_sub(busy) as usize;
            order.extend(hosts[host].iter().take(most));
        }
        if self.has(Fault::FirstInFirstOut) {
            let mut all: Vec<usize> = hosts.values().flatten().copied().collect();
            all.sort_unstable();
            all.truncate(max);
            order.retain(|place| all.contains(place));
        }
        let mut rooms: BTreeMap<CrawlId, u64> =
            self.crawls.keys().map(|id| (id.clone(), self.room(id))).collect();
        let mut taken = Vec::new();
        let mut places = Places::new(max);
        for place in order {
            let Some(room) = rooms.get_mut(&self.rows[place].crawl) else { continue };
            if *room > 0 {
                let come_together = self.has(Fault::SuspectsComeTogether);
                if !places.take(if come_together { 0 } else { self.rows[place].losses }) {
                    break;
                }
                *room -= 1;
                taken.push(self.take(place, now));
            }
        }
        taken
    }

    fn take(&mut self, place: usize, now: Timestamp) -> Taken {
        self.takings += 1;
        let (taking, lease_until) = (self.takings, now + self.policy.lease);
        let [stays, no_validators] = [self.has(Fault::HandsOutTwice), self.has(Fault::DropsValidators)];
        let row = &mut self.rows[place];
        if let Some(crawl) = self.crawls.get_mut(&row.crawl) {
            crawl.takings += 1;
        }
        row.taking = taking;
        row.lease_until = lease_until;
        if !stays {
            row.state = EntryState::InFlight;
        }
        Taken {
            receipt: Receipt { entry: place as u64, taking },
            crawl: row.crawl.clone(),
            revision: self.crawls.get(&row.crawl).map_or(0, |crawl| crawl.revision),
            item: row.new.item.clone(),
            url: row.new.url.clone(),
            host: row.new.host.clone(),
            depth: row.new.depth,
            chain: row.new.chain,
            insist: row.new.insist,
            attempt: row.failures + 1,
            losses: row.losses,
            replays: row.replays,
            last_error: row.last_error.clone(),
            validators: if no_validators { Validators::default() } else { row.facts.validators.clone() },
            lease_until,
        }
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        let waiting = self.rows.iter().filter(|row| row.state == EntryState::Waiting);
        let waiting = waiting.filter(|row| self.runs(&row.crawl) || self.has(Fault::DueIgnoresPause));
        let no_rest = self.has(Fault::DueIgnoresRest);
        let due = |row: &Row| {
            let due = row.due.unwrap_or_default();
            if no_rest { due } else { due.max(self.rest_of(row)) }
        };
        waiting.map(due).min()
    }

    /// Whether the receipt is of what is in flight.
    pub(super) fn holds(&self, receipt: Receipt) -> Option<usize> {
        let place = usize::try_from(receipt.entry).ok()?;
        let row = self.rows.get(place)?;
        let right = row.taking == receipt.taking || self.has(Fault::IgnoresTaking);
        let flies = row.state == EntryState::InFlight
            || self.has(Fault::SettlesTwice)
            || self.has(Fault::HandsOutTwice);
        (right && flies).then_some(place)
    }

    pub(super) fn extend(&mut self, receipt: Receipt, now: Timestamp) -> bool {
        let Some(place) = self.holds(receipt) else { return self.has(Fault::ExtendAlwaysTrue) };
        if !self.has(Fault::ExtendDoesNothing) {
            self.rows[place].lease_until = now + self.policy.lease;
        }
        true
    }

    pub(super) fn alone(&mut self, receipt: Receipt) -> bool {
        let Some(place) = self.holds(receipt) else { return self.has(Fault::AloneForAnybody) };
        self.rows[place].alone = true;
        true
    }

    pub(super) fn entry(row: &Row) -> Entry {
        Entry {
            crawl: row.crawl.clone(),
            item: row.new.item.clone(),
            url: row.new.url.clone(),
            host: row.new.host.clone(),
            depth: row.new.depth,
            found_on: row.new.found_on.clone(),
            added_at: row.added_at,
            state: row.state,
            due: row.due.filter(|_| row.state == EntryState::Waiting),
            crawled_at: row.facts.crawled_at.filter(|_| row.state == EntryState::Done),
            attempts: row.attempts,
            outcome: row.outcome.clone(),
            canonical: row.facts.canonical.clone(),
        }
    }

    pub(super) fn dead_url(row: &Row) -> DeadUrl {
        DeadUrl {
            item: row.new.item.clone(),
            crawl: row.crawl.clone(),
            url: row.new.url.clone(),
            reason: row.reason.clone(),
            attempts: row.attempts,
            replays: row.replays,
            first_error: row.first_error.clone(),
            last_error: row.last_error.clone(),
            worker_lost: row.worker_lost,
            dead_at: row.dead_at,
        }
    }
}
