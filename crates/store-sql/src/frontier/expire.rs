//! Expired leases: URLs of a lost worker are pending again, before all others, or dead after too many solo crashes.

use super::{
    DEAD, PENDING,
    counts::{CountChanges, StateChange},
    hosts,
    hosts::{HostChanges, Locked},
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
};
use crawlway_store::FrontierPolicy;

/// URLs taken back by one batch.
const BATCH: i64 = 1000;

/// Takes back a batch of URLs whose leases have expired, except of locked hosts.
pub(super) async fn expire(tx: &mut Tx, policy: FrontierPolicy, now: i64) -> Result<u64, Fault> {
    reclaim_batch(tx, policy, now, now, Locked::Skip).await
}

/// Takes back all URLs in flight.
pub(super) async fn reclaim_all(tx: &mut Tx, policy: FrontierPolicy, now: i64) -> Result<u64, Fault> {
    let mut total = 0;
    loop {
        let lost = reclaim_batch(tx, policy, now, i64::MAX, Locked::Wait).await?;
        if lost == 0 {
            return Ok(total);
        }
        total += lost;
    }
}

async fn reclaim_batch(
    tx: &mut Tx,
    policy: FrontierPolicy,
    now: i64,
    leased_until: i64,
    locked: Locked,
) -> Result<u64, Fault> {
    static LEASED: Sql =
        Sql::new("SELECT num, host FROM entries WHERE state = 1 AND due <= $1 ORDER BY due {limit $2}");
    static LOST: Sql = Sql::new(
        "SELECT e.num, e.crawl, e.host, e.attempts, e.solo_crashes + e.alone, e.alone FROM {rows num int} r
         JOIN entries e ON e.num = r.num WHERE e.state = 1 AND e.due <= $2",
    );
    // Due at 0, before all other pending URLs. The attempt counts only if the URL is dead.
    static LOSE: Sql = Sql::new(
        "UPDATE entries SET state = r.new_state, due = r.new_due, outcome = r.why,
             first_error = coalesce(entries.first_error, r.what), last_error = r.what,
             attempts = entries.attempts - CASE WHEN r.new_state = 3 THEN 0 ELSE 1 END,
             losses = entries.losses + 1, solo_crashes = entries.solo_crashes + entries.alone,
             alone = CASE WHEN r.new_state = 3 THEN 1 ELSE 0 END
         FROM {rows num int, new_state int, new_due int, why text, what text} r WHERE entries.num = r.num",
    );
    let leased = tx.run(&LEASED, vec![Arg::Int(leased_until), Arg::Int(BATCH)]).await?;
    if leased.is_empty() {
        return Ok(0);
    }
    let nums = leased.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, Fault>>()?;
    let of = leased.iter().map(|row| row.int(1)).collect::<Result<Vec<i64>, Fault>>()?;
    if locked == Locked::Wait {
        hosts::lock(tx, of.iter().copied()).await?;
    }
    let free = hosts::lock_free(tx, of).await?;
    let mut crawl_counts = CountChanges::default();
    let mut changes = HostChanges::default();
    let mut rows = Rows::new();
    let mut lost = 0;
    for row in tx.run(&LOST, vec![Arg::Rows(Rows::of_ints(nums)), Arg::Int(leased_until)]).await? {
        let (num, crawl, host, attempts) = (row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?);
        let (solo_crashes, is_alone) = (row.int(4)?, row.int(5)? != 0);
        if !free.contains(&host) {
            continue;
        }
        lost += 1;
        let what =
            format!("its worker was lost in attempt {attempts}: it neither settled nor extended its lease");
        changes.in_flight(host, -1);
        let counts = crawl_counts.of(crawl);
        counts.in_flight -= 1;
        if is_alone && solo_crashes >= i64::from(policy.max_solo_crashes) {
            counts.dead += 1;
            let why = format!("its worker was lost {solo_crashes} times while it ran nothing else");
            rows.row().int(num).int(DEAD).int(now).text(&why).text(&what);
        } else {
            counts.pending += 1;
            changes.pending(host, 1);
            rows.row().int(num).int(PENDING).int(0).opt_text(None).text(&what);
        }
    }
    if rows.is_empty() {
        return Ok(0);
    }
    tx.run(&LOSE, vec![Arg::Rows(rows)]).await?;
    changes.make(tx).await?;
    crawl_counts.make(tx, StateChange::Finish, now).await?;
    Ok(lost)
}
