//! Counts of crawls, and the states that follow from them.

use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
};
use std::collections::BTreeMap;

/// Changes of one transaction to the counts of crawls, by the number of the crawl.
#[derive(Debug, Default)]
pub(super) struct CountChanges {
    crawls: BTreeMap<i64, Counts>,
    /// Outcomes and reasons, by crawl, kind and name.
    named: BTreeMap<(i64, i64, String), i64>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) pending: i64,
    pub(super) in_flight: i64,
    pub(super) done: i64,
    pub(super) dead: i64,
    pub(super) fetched: i64,
}

/// State changes of a crawl that may follow from changed counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateChange {
    /// Finish it if nothing is left to do.
    Finish,
    /// Resume it if it has finished or reached its page limit, and may fetch more.
    Resume,
    /// Either of the two, after a change of its page limit.
    Either,
    None,
}

const OUTCOME: i64 = 0;
const LEFT_OUT: i64 = 1;

impl CountChanges {
    pub(super) fn of(&mut self, crawl: i64) -> &mut Counts {
        self.crawls.entry(crawl).or_default()
    }

    pub(super) fn outcome(&mut self, crawl: i64, word: &str) {
        *self.named.entry((crawl, OUTCOME, word.to_owned())).or_default() += 1;
    }

    pub(super) fn left_out(&mut self, crawl: i64, reason: &str) {
        self.crawls.entry(crawl).or_default();
        *self.named.entry((crawl, LEFT_OUT, reason.to_owned())).or_default() += 1;
    }

    /// Writes the changes. The last step of a transaction, since it locks rows that all workers share.
    pub(super) async fn make(self, tx: &mut Tx, change: StateChange, now: i64) -> Result<(), Fault> {
        static MAKE: Sql = Sql::new(
            "UPDATE crawls SET waiting = crawls.waiting + r.by_waiting, in_flight = crawls.in_flight + r.by_in_flight,
                 done = crawls.done + r.by_done, dead = crawls.dead + r.by_dead, fetched = crawls.fetched + r.by_fetched
             FROM {rows crawl int, by_waiting int, by_in_flight int, by_done int, by_dead int, by_fetched int} r
             WHERE crawls.num = r.crawl
             RETURNING num, state, waiting, in_flight, fetched, max_pages",
        );
        static NAMED: Sql = Sql::new(
            "INSERT INTO crawl_counts (crawl, kind, name, many)
             SELECT r.crawl, r.kind, r.name, r.many FROM {rows crawl int, kind int, name text, many int} r WHERE true
             ON CONFLICT (crawl, kind, name) DO UPDATE SET many = crawl_counts.many + excluded.many",
        );
        static LOCK: Sql = Sql::new(
            "SELECT 1 FROM crawls c WHERE c.num IN (SELECT r.crawl FROM {rows crawl int} r) ORDER BY c.num {for update}",
        );
        if self.crawls.is_empty() {
            return Ok(());
        }
        if tx.is_shared() && self.crawls.len() > 1 {
            tx.run(&LOCK, vec![Arg::Rows(Rows::of_ints(self.crawls.keys().copied()))]).await?;
        }
        let mut rows = Rows::new();
        for (crawl, by) in self.crawls {
            rows.row().int(crawl).int(by.pending).int(by.in_flight).int(by.done).int(by.dead).int(by.fetched);
        }
        let crawls = tx.run(&MAKE, vec![Arg::Rows(rows)]).await?;
        if !self.named.is_empty() {
            let mut rows = Rows::new();
            for ((crawl, kind, name), many) in &self.named {
                rows.row().int(*crawl).int(*kind).text(name).int(*many);
            }
            tx.run(&NAMED, vec![Arg::Rows(rows)]).await?;
        }
        for row in crawls {
            let (crawl, state) = (row.int(0)?, row.int(1)?);
            let (pending, in_flight, fetched) = (row.int(2)?, row.int(3)?, row.int(4)?);
            let full = row.opt_int(5)?.is_some_and(|max| fetched >= max);
            let [may_end, may_resume] = [change != StateChange::Resume, change != StateChange::Finish];
            let ended = if pending > 0 { LIMITED } else { FINISHED };
            match state {
                _ if change == StateChange::None => {}
                RUNNING | PAUSED if may_end && (full || (pending == 0 && in_flight == 0)) => {
                    set(tx, crawl, ended, Some(now)).await?;
                }
                FINISHED | LIMITED if may_resume && pending > 0 && !full => {
                    set(tx, crawl, RUNNING, None).await?;
                }
                // URLs were added to a crawl at its page limit, or its last pending URL went.
                FINISHED | LIMITED if state != ended => set(tx, crawl, ended, Some(now)).await?,
                _ => {}
            }
        }
        Ok(())
    }
}

pub(super) const RUNNING: i64 = 0;
pub(super) const PAUSED: i64 = 1;
pub(super) const CANCELLED: i64 = 2;
pub(super) const FINISHED: i64 = 3;
pub(super) const LIMITED: i64 = 4;

/// Sets the state of a crawl, and when it ended.
pub(super) async fn set(tx: &mut Tx, crawl: i64, state: i64, ended_at: Option<i64>) -> Result<(), Fault> {
    static SET: Sql = Sql::new("UPDATE crawls SET state = $2, ended_at = $3 WHERE num = $1");
    tx.run(&SET, vec![Arg::Int(crawl), Arg::Int(state), Arg::OptInt(ended_at)]).await?;
    Ok(())
}
