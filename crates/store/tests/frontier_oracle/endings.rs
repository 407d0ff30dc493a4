//! How a taking of the simple frontier ends, and what follows for its crawl.

use super::{faults::Fault, world::World};
use crawlway_store::Timestamp;
use crawlway_store::frontier::{
    Crawl, CrawlId, CrawlState, Ending, EntryState, NewTerms, PageFacts, Receipt, Reopen, SettledAs,
    Validators,
};
use std::time::Duration;

/// What a lost worker is called among a URL's errors.
const LOST: &str = "its worker was lost";

impl World {
    /// A failed attempt: it waits again, or is dead after the last one.
    fn fail(&mut self, place: usize, error: &str, due: Timestamp, now: Timestamp) -> SettledAs {
        let most = self.policy.max_attempts + u32::from(self.has(Fault::OneMoreAttempt));
        let (fault, error) = (self.fault, self.text(error));
        let row = &mut self.rows[place];
        row.failures += u32::from(fault != Fault::RetryCountsNothing);
        row.attempts = row.failures;
        if row.first_error.is_none() || fault == Fault::ForgetsFirstError {
            row.first_error = Some(error.clone());
        }
        row.last_error = Some(error.clone());
        row.outcome = Some(error.clone());
        if row.failures >= most {
            row.state = EntryState::Dead;
            row.reason = format!("{} attempts failed, the last with: {error}", row.failures);
            row.dead_at = now;
            row.due = None;
            return SettledAs::Dead;
        }
        row.state = EntryState::Waiting;
        row.due = Some(due);
        SettledAs::Retrying { attempt: row.failures + 1 }
    }

    /// Leases that have ended are lost; all of them, if everything is taken back.
    pub(super) fn lose(&mut self, all: bool, now: Timestamp) -> u64 {
        let early = std::time::Duration::from_secs(u64::from(self.has(Fault::LeaseEndsEarly)) * 5);
        let lost: Vec<usize> = (0..self.rows.len())
            .filter(|place| self.rows[*place].state == EntryState::InFlight)
            .filter(|place| {
                all || self.rows[*place].lease_until <= now + early && !self.has(Fault::LeaseNeverEnds)
            })
            .collect();
        for place in &lost {
            if all && self.has(Fault::TakeBackIsKind) {
                self.rows[*place].state = EntryState::Waiting;
            } else if self.has(if all { Fault::CountsTakenBack } else { Fault::CountsLostLease }) {
                self.fail(*place, LOST, now, now);
            } else {
                self.lose_one(*place, now);
            }
        }
        if !lost.is_empty() && !self.has(Fault::OnlySettleFinishes) {
            self.finish(now);
        }
        lost.len() as u64
    }

    /// A lost worker is no attempt. If it ran nothing else too often, it is dead of that.
    fn lose_one(&mut self, place: usize, now: Timestamp) {
        let (fault, most) = (self.fault, self.policy.max_solo_crashes);
        let row = &mut self.rows[place];
        row.losses += u32::from(fault != Fault::ForgetsLosses);
        row.first_error.get_or_insert_with(|| LOST.to_owned());
        row.last_error = Some(LOST.to_owned());
        row.outcome = Some(LOST.to_owned());
        row.solo_crashes += u32::from(row.alone && fault != Fault::IgnoresAlone);
        if row.alone && row.solo_crashes >= most {
            row.state = EntryState::Dead;
            row.attempts = row.failures + 1;
            row.reason = format!("its worker was lost {most} times while it ran nothing else");
            row.worker_lost = fault != Fault::DiesOfNothing;
            row.dead_at = now;
            row.due = None;
        } else {
            row.state = EntryState::Waiting;
            row.due = Some(now);
        }
        row.alone &= fault == Fault::AloneForEver;
    }

    pub(super) fn settle(&mut self, receipt: Receipt, ending: &Ending, now: Timestamp) -> Option<SettledAs> {
        let place = self.holds(receipt)?;
        let fault = self.fault;
        let host = (self.rows[place].crawl.clone(), self.rows[place].new.host.clone());
        self.rows[place].alone &= fault == Fault::AloneForEver;
        if matches!(ending, Ending::Done { .. }) || fault == Fault::RetryForgetsLosses {
            (self.rows[place].losses, self.rows[place].solo_crashes) = (0, 0);
        }
        let (until, settled) = match ending {
            Ending::Done { outcome, facts, rest } => {
                let outcome = self.text(outcome);
                let row = &mut self.rows[place];
                let crawl = self.crawls.get_mut(&row.crawl)?;
                if fault == Fault::LastOutcomeOnly
                    && let Some(before) = row.outcome.as_ref().and_then(|word| crawl.outcomes.get_mut(word))
                {
                    *before -= 1;
                }
                crawl.fetches += u64::from(facts.fetched);
                *crawl.outcomes.entry(outcome.clone()).or_default() += 1;
                row.state = EntryState::Done;
                row.attempts = row.failures + 1;
                row.outcome = Some(outcome);
                row.due = None;
                let links = facts.links.clone().or(row.facts.links.take());
                row.facts = PageFacts { links, ..facts.clone() };
                if fault == Fault::DropsLinks {
                    row.facts.links = None;
                }
                if fault == Fault::DropsCanonical {
                    row.facts.canonical = None;
                }
                (now + *rest, SettledAs::Done)
            }
            Ending::Retry { after, error, rest } => {
                let due = if fault == Fault::RetryAtOnce { now } else { now + *after };
                let rest = if fault == Fault::RetryHoldsHost { *after } else { *rest };
                (now + rest, self.fail(place, error, due, now))
            }
            Ending::Defer { until } => {
                let due = self.before_all_of_its_host(place, *until);
                let row = &mut self.rows[place];
                row.state = EntryState::Waiting;
                row.due = Some(if fault == Fault::DeferGoesBehind { *until } else { due });
                row.failures += u32::from(fault == Fault::DeferCounts);
                (if fault == Fault::DeferHoldsNobody { now } else { *until }, SettledAs::Deferred)
            }
            Ending::Wait { until } => {
                let row = &mut self.rows[place];
                row.state = EntryState::Waiting;
                row.due = Some(*until);
                row.failures += u32::from(fault == Fault::DeferCounts);
                (if fault == Fault::WaitHoldsHost { *until } else { now }, SettledAs::Deferred)
            }
            Ending::Dead { reason, rest } if fault == Fault::DeadIsRetried => {
                (now + *rest, self.fail(place, reason, now, now))
            }
            Ending::Dead { reason, rest } => {
                let reason = self.text(reason);
                let row = &mut self.rows[place];
                row.state = EntryState::Dead;
                row.attempts = row.failures + 1;
                row.reason = reason.clone();
                row.first_error.get_or_insert_with(|| reason.clone());
                row.last_error = Some(reason.clone());
                row.outcome = Some(reason);
                row.dead_at = now;
                row.due = None;
                (now + *rest, SettledAs::Dead)
            }
        };
        let rest = self.rests.entry(host).or_default();
        *rest = if fault == Fault::LastRestCounts { until } else { until.max(*rest) };
        Some(settled)
    }

    /// When a URL must be due to come before all others of its host, this at the latest.
    fn before_all_of_its_host(&self, place: usize, latest: Timestamp) -> Timestamp {
        let row = &self.rows[place];
        let others = self.rows.iter().filter(|other| {
            other.state == EntryState::Waiting && other.crawl == row.crawl && other.new.host == row.new.host
        });
        let first = others.filter_map(|other| other.due).min();
        first.map_or(latest, |first| latest.min(first - Duration::from_millis(1)))
    }

    /// Finishes what has nothing left to do.
    pub(super) fn finish(&mut self, now: Timestamp) {
        for id in self.crawls.keys().cloned().collect::<Vec<_>>() {
            let Some(Crawl { state, counts, max_pages, .. }) = self.crawl(&id) else { continue };
            let mut left = counts.waiting + counts.in_flight;
            match self.fault {
                Fault::FinishIgnoresFlights => left = counts.waiting,
                Fault::FinishIgnoresWaiting => left = counts.in_flight,
                Fault::DeadKeepRunning => left += counts.dead,
                Fault::NeverFinishes => left = 1,
                _ => {}
            }
            let full = max_pages.is_some_and(|most| counts.fetched >= most)
                && self.fault != Fault::LimitNeverFinishes;
            let ended = if counts.waiting > 0 && !self.has(Fault::LimitedIsFinished) {
                CrawlState::Limited
            } else {
                CrawlState::Finished
            };
            match state {
                CrawlState::Running | CrawlState::Paused if counts.known() > 0 && (left == 0 || full) => {
                    self.set(&id, ended, now);
                }
                CrawlState::Finished | CrawlState::Limited if state != ended => self.set(&id, ended, now),
                _ => {}
            }
        }
    }

    pub(super) fn set_terms(&mut self, id: &CrawlId, terms: &NewTerms, now: Timestamp) -> Option<Crawl> {
        let blind = self.has(Fault::TermsIgnoreRevision);
        let crawl = self.crawls.get_mut(id).filter(|crawl| crawl.revision == terms.replaces || blind)?;
        crawl.revision += 1;
        crawl.new.definition.clone_from(&terms.definition);
        crawl.new.max_pages = terms.max_pages;
        if !self.has(Fault::TermsLeaveLimited) {
            self.resume(id, now);
        }
        self.finish(now);
        self.crawl(id)
    }

    pub(super) fn set(&mut self, id: &CrawlId, state: CrawlState, now: Timestamp) {
        if let Some(crawl) = self.crawls.get_mut(id) {
            crawl.state = state;
            crawl.ended_at = state.has_ended().then_some(now);
        }
    }

    /// Whether the page limit is used up.
    fn is_full(&self, id: &CrawlId) -> bool {
        let full = |crawl: Crawl| crawl.max_pages.is_some_and(|most| crawl.counts.fetched >= most);
        self.crawl(id).is_some_and(full) && !self.has(Fault::FullRunsAgain)
    }

    /// Sets a crawl that ended by itself running again if something of it waits, unless its page limit is used up.
    pub(super) fn resume(&mut self, id: &CrawlId, now: Timestamp) {
        let Some(Crawl { state, counts, .. }) = self.crawl(id) else { return };
        let ended = matches!(state, CrawlState::Finished | CrawlState::Limited);
        match (ended && counts.waiting > 0, self.is_full(id)) {
            (true, false) => self.set(id, CrawlState::Running, now),
            (true, true) if state == CrawlState::Finished && !self.has(Fault::LimitedIsFinished) => {
                self.set(id, CrawlState::Limited, now);
            }
            _ => {}
        }
    }

    /// Has it wait as if it were new.
    pub(super) fn wait_anew(&mut self, place: usize, now: Timestamp, keeps_attempts: bool) {
        let keeps_losses = self.has(Fault::AnewKeepsLosses);
        let row = &mut self.rows[place];
        row.state = EntryState::Waiting;
        row.due = Some(now);
        (row.alone, row.worker_lost) = (false, false);
        if !keeps_losses {
            (row.losses, row.solo_crashes) = (0, 0);
        }
        if !keeps_attempts {
            row.failures = 0;
            row.attempts = 0;
            row.first_error = None;
            row.last_error = None;
        }
    }

    pub(super) fn reopen(&mut self, id: &CrawlId, which: &Reopen, now: Timestamp) -> u64 {
        let mut many = 0;
        for place in 0..self.rows.len() {
            let row = &self.rows[place];
            let done = row.state == EntryState::Done;
            let again = match which {
                Reopen::CrawledBefore(before) => {
                    let at = row.facts.crawled_at;
                    done && (at.is_some_and(|at| at <= *before) || self.has(Fault::ReopensEverything))
                }
                Reopen::WithoutLinks => done && row.facts.fetched && row.facts.links.is_none(),
                Reopen::All => done,
                Reopen::Outcome(outcome) => done && row.outcome.as_ref() == Some(outcome),
                Reopen::Urls(urls) => {
                    let dead = row.state == EntryState::Dead && !self.has(Fault::ReopensNoDead);
                    (done || dead) && urls.contains(&row.new.url)
                }
            };
            if row.crawl == *id && again {
                many += 1;
                if matches!(which, Reopen::WithoutLinks | Reopen::All) {
                    self.rows[place].facts.validators = Validators::default();
                }
                self.wait_anew(place, now, self.has(Fault::ReopenKeepsAttempts));
                if matches!(which, Reopen::Urls(_) | Reopen::All) {
                    self.rows[place].due = Some(Timestamp::default());
                }
            }
        }
        if !self.has(Fault::ReopenStaysFinished) {
            let Some(Crawl { state, counts, .. }) = self.crawl(id) else { return many };
            let cancelled = state == CrawlState::Cancelled && !self.has(Fault::ReopenLeavesCancelled);
            if cancelled && counts.waiting > 0 && !self.is_full(id) {
                self.set(id, CrawlState::Running, now);
            }
            self.resume(id, now);
        }
        many
    }
}
