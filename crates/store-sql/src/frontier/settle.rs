//! Settling URLs in flight, extending their leases, and noting solo runs.

use super::{
    DEAD, DONE, PENDING,
    counts::{CountChanges, StateChange},
    hosts,
    hosts::HostChanges,
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::{after, millis, saturating_i64},
};
use crawlway_store::{
    FrontierPolicy,
    frontier::{PageFacts, Receipt, UrlSettleOutcome, UrlVerdict},
};
use std::collections::HashMap;

struct InFlight {
    crawl: i64,
    host: i64,
    taking: i64,
    attempts: i64,
}

pub(super) async fn settle(
    tx: &mut Tx,
    policy: FrontierPolicy,
    now: i64,
    endings: &[(Receipt, UrlVerdict)],
) -> Result<Vec<Option<UrlSettleOutcome>>, Fault> {
    let mut in_flight = in_flight(tx, endings.iter().map(|(receipt, _)| *receipt)).await?;
    let mut crawl_counts = CountChanges::default();
    let mut changes = HostChanges::default();
    let mut rows = Rows::new();
    let mut links = Rows::new();
    let mut deferred = Vec::new();
    let mut answers = Vec::with_capacity(endings.len());
    for (receipt, ending) in endings {
        let num = saturating_i64(receipt.entry);
        // Removed, so that a second settle of the same receipt is fenced.
        let Some(url) = is_held(&in_flight, *receipt).then(|| in_flight.remove(&num)).flatten() else {
            answers.push(None);
            continue;
        };
        if let UrlVerdict::Done { outcome, .. } = ending {
            crawl_counts.outcome(url.crawl, outcome);
        }
        let counts = crawl_counts.of(url.crawl);
        counts.in_flight -= 1;
        changes.in_flight(url.host, -1);
        let change = Change { num, attempts: url.attempts, ..Change::default() };
        let (answer, change) = match ending {
            UrlVerdict::Done { outcome, facts, host_delay: rest } => {
                counts.done += 1;
                counts.fetched += i64::from(facts.fetched);
                changes.rest(url.host, after(now, *rest));
                let due = facts.crawled_at.map(millis);
                if let Some(page_links) = &facts.links {
                    links.row().int(num).text(page_links);
                }
                let facts = Some(facts);
                (
                    UrlSettleOutcome::Done,
                    Change { state: DONE, due, outcome: Some(outcome.clone()), facts, ..change },
                )
            }
            UrlVerdict::Retry { after: delay, error, host_delay: rest } => {
                changes.rest(url.host, after(now, *rest));
                let error = Some(error.clone());
                if url.attempts >= i64::from(policy.max_attempts) {
                    counts.dead += 1;
                    let why = format!(
                        "attempt {}, the last one, failed: {}",
                        url.attempts,
                        error.as_deref().unwrap_or_default()
                    );
                    (
                        UrlSettleOutcome::Dead,
                        Change { state: DEAD, due: Some(now), outcome: Some(why), error, ..change },
                    )
                } else {
                    counts.pending += 1;
                    changes.pending(url.host, 1);
                    let attempt = u32::try_from(url.attempts + 1).unwrap_or(u32::MAX);
                    let due = Some(after(now, *delay));
                    (UrlSettleOutcome::Retrying { attempt }, Change { state: PENDING, due, error, ..change })
                }
            }
            UrlVerdict::Defer { until } | UrlVerdict::Wait { until } => {
                counts.pending += 1;
                changes.pending(url.host, 1);
                if matches!(ending, UrlVerdict::Defer { .. }) {
                    changes.rest(url.host, millis(*until));
                    deferred.push(num);
                }
                let due = Some(millis(*until));
                (
                    UrlSettleOutcome::Deferred,
                    Change { state: PENDING, due, attempts: url.attempts - 1, ..change },
                )
            }
            UrlVerdict::Dead { reason, host_delay: rest } => {
                counts.dead += 1;
                changes.rest(url.host, after(now, *rest));
                let (outcome, error) = (Some(reason.clone()), Some(reason.clone()));
                (UrlSettleOutcome::Dead, Change { state: DEAD, due: Some(now), outcome, error, ..change })
            }
        };
        change.write(&mut rows);
        answers.push(Some(answer));
    }
    if rows.is_empty() {
        return Ok(answers);
    }
    // Facts of a page stay until it is fetched again; errors stay until it is done.
    static SETTLE: Sql = Sql::new(
        "UPDATE entries SET state = r.new_state, due = r.new_due, attempts = r.new_attempts, outcome = r.new_outcome,
             first_error = CASE WHEN r.new_state = 2 THEN NULL ELSE coalesce(entries.first_error, r.error) END,
             last_error = CASE WHEN r.new_state = 2 THEN NULL ELSE coalesce(r.error, entries.last_error) END,
             fetched = CASE WHEN r.new_state = 2 THEN r.new_fetched ELSE entries.fetched END,
             etag = CASE WHEN r.new_state = 2 THEN r.new_etag ELSE entries.etag END,
             last_modified = CASE WHEN r.new_state = 2 THEN r.new_modified ELSE entries.last_modified END,
             canonical = CASE WHEN r.new_state = 2 THEN r.new_canonical ELSE entries.canonical END,
             losses = CASE WHEN r.new_state = 2 THEN 0 ELSE entries.losses END,
             solo_crashes = CASE WHEN r.new_state = 2 THEN 0 ELSE entries.solo_crashes END, alone = 0
         FROM {rows num int, new_state int, new_due int, new_attempts int, new_outcome text, error text, \
         new_fetched int, new_etag text, new_modified text, new_canonical text} r
         WHERE entries.num = r.num",
    );
    static LINKS: Sql = Sql::new(
        "INSERT INTO page_links (entry, links) SELECT r.num, r.links FROM {rows num int, links text} r WHERE true
         ON CONFLICT (entry) DO UPDATE SET links = excluded.links",
    );
    tx.run(&SETTLE, vec![Arg::Rows(rows)]).await?;
    if !links.is_empty() {
        tx.run(&LINKS, vec![Arg::Rows(links)]).await?;
    }
    put_first(tx, deferred).await?;
    changes.make(tx).await?;
    crawl_counts.make(tx, StateChange::Finish, now).await?;
    Ok(answers)
}

/// Makes deferred URLs the first of their hosts, which rest until then.
async fn put_first(tx: &mut Tx, nums: Vec<i64>) -> Result<(), Fault> {
    static FIRST: Sql = Sql::new(
        "UPDATE entries SET due = coalesce(
             (SELECT min(x.due) - 1 FROM entries x WHERE x.host = entries.host AND x.state = 0 AND x.due <= entries.due
                                                     AND x.num <> entries.num), due)
         WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    if !nums.is_empty() {
        tx.run(&FIRST, vec![Arg::Rows(Rows::of_ints(nums))]).await?;
    }
    Ok(())
}

/// Update of an entry.
#[derive(Default)]
struct Change<'a> {
    num: i64,
    state: i64,
    due: Option<i64>,
    attempts: i64,
    outcome: Option<String>,
    error: Option<String>,
    facts: Option<&'a PageFacts>,
}

impl Change<'_> {
    fn write(&self, rows: &mut Rows) {
        let nothing = PageFacts::default();
        let facts = self.facts.unwrap_or(&nothing);
        rows.row()
            .int(self.num)
            .int(self.state)
            .opt_int(self.due)
            .int(self.attempts)
            .opt_text(self.outcome.as_deref())
            .opt_text(self.error.as_deref())
            .int(i64::from(facts.fetched))
            .opt_text(facts.validators.etag.as_deref())
            .opt_text(facts.validators.last_modified.as_deref())
            .opt_text(facts.canonical.as_deref());
    }
}

pub(super) async fn extend(tx: &mut Tx, receipts: &[Receipt], until: i64) -> Result<Vec<bool>, Fault> {
    static EXTEND: Sql =
        Sql::new("UPDATE entries SET due = $2 WHERE num IN (SELECT r.num FROM {rows num int} r)");
    let in_flight = in_flight(tx, receipts.iter().copied()).await?;
    let answers: Vec<bool> = receipts.iter().map(|receipt| is_held(&in_flight, *receipt)).collect();
    let held = receipts.iter().zip(&answers).filter(|(_, is_held)| **is_held);
    let rows = Rows::of_ints(held.map(|(receipt, _)| saturating_i64(receipt.entry)));
    if !rows.is_empty() {
        tx.run(&EXTEND, vec![Arg::Rows(rows), Arg::Int(until)]).await?;
    }
    Ok(answers)
}

pub(super) async fn mark_solo(tx: &mut Tx, receipt: Receipt) -> Result<bool, Fault> {
    static ALONE: Sql = Sql::new("UPDATE entries SET alone = 1 WHERE num = $1");
    let is_held = is_held(&in_flight(tx, [receipt].into_iter()).await?, receipt);
    if is_held {
        tx.run(&ALONE, vec![Arg::Int(saturating_i64(receipt.entry))]).await?;
    }
    Ok(is_held)
}

/// Whether a receipt is of the current lease.
fn is_held(in_flight: &HashMap<i64, InFlight>, receipt: Receipt) -> bool {
    let url = in_flight.get(&saturating_i64(receipt.entry));
    url.is_some_and(|url| url.taking == saturating_i64(receipt.claim))
}

/// The URLs of these receipts that are in flight, with their hosts locked.
async fn in_flight(
    tx: &mut Tx,
    receipts: impl Iterator<Item = Receipt>,
) -> Result<HashMap<i64, InFlight>, Fault> {
    static IN_FLIGHT: Sql = Sql::new(
        "SELECT e.num, e.crawl, e.host, e.taking, e.attempts FROM {rows num int} r
         JOIN entries e ON e.num = r.num WHERE e.state = 1",
    );
    let nums: Vec<i64> = receipts.map(|receipt| saturating_i64(receipt.entry)).collect();
    hosts::lock_of_entries(tx, nums.iter().copied()).await?;
    let mut in_flight = HashMap::with_capacity(nums.len());
    for row in tx.run(&IN_FLIGHT, vec![Arg::Rows(Rows::of_ints(nums))]).await? {
        let (crawl, host, taking, attempts) = (row.int(1)?, row.int(2)?, row.int(3)?, row.int(4)?);
        in_flight.insert(row.int(0)?, InFlight { crawl, host, taking, attempts });
    }
    Ok(in_flight)
}
