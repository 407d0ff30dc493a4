//! Ends of runs: finalised once, aborted, purged.

use super::{
    RunLock, lists, lock,
    rows::{head, save_metadata},
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::runs::{AbortOutcome, FinaliseOutcome, RunState};
use std::time::Duration;

/// Why a run cannot be finished now; `None` if it can.
pub(super) async fn not_due(tx: &mut Tx, run: &str) -> Result<Option<FinaliseOutcome>, Fault> {
    static DUE: Sql = Sql::new(
        "SELECT CASE WHEN finished_at IS NOT NULL THEN 2
             WHEN state NOT IN ('sealed', 'aborted') THEN 1
             WHEN EXISTS (SELECT 1 FROM run_jobs m WHERE m.run_id = r.id AND m.outcome IS NULL) THEN 1
             ELSE 0 END
         FROM ingestion_runs r WHERE id = $1",
    );
    let rows = tx.run(&DUE, vec![Arg::Text(run)]).await?;
    let Some(row) = rows.first() else { return Ok(Some(FinaliseOutcome::Unknown)) };
    Ok(match row.int(0)? {
        0 => None,
        1 => Some(FinaliseOutcome::Open),
        _ => Some(FinaliseOutcome::AlreadyFinished),
    })
}

pub(super) async fn finalise(tx: &mut Tx, run: &str, now: i64) -> Result<FinaliseOutcome, Fault> {
    static FINISH: Sql = Sql::new(
        "UPDATE ingestion_runs SET finished_at = $2, run_metadata = {json $3},
             state = CASE WHEN state = 'sealed' THEN 'finalised' ELSE state END
         WHERE id = $1 AND finished_at IS NULL",
    );
    lock(tx, run, RunLock::Exclusive).await?;
    if let Some(outcome) = not_due(tx, run).await? {
        return Ok(outcome);
    }
    let Some(mut head) = head(tx, run).await? else { return Ok(FinaliseOutcome::Unknown) };
    let counts = lists::counts(tx, [run]).await?.remove(run).unwrap_or_default();
    head.metadata.counts = Some(counts.to_metadata());
    tx.run(&FINISH, vec![Arg::Text(run), Arg::Int(now), Arg::Text(&save_metadata(&head.metadata))]).await?;
    let finished = lists::run(tx, run).await?;
    Ok(finished.map_or(FinaliseOutcome::Unknown, |run| FinaliseOutcome::Finished(Box::new(run))))
}

/// Marks a run as aborted; its open jobs are settled next.
pub(super) async fn abort(tx: &mut Tx, run: &str) -> Result<AbortOutcome, Fault> {
    static ABORT: Sql = Sql::new("UPDATE ingestion_runs SET state = 'aborted' WHERE id = $1");
    lock(tx, run, RunLock::Exclusive).await?;
    let Some(head) = head(tx, run).await? else { return Ok(AbortOutcome::Unknown) };
    match head.state {
        RunState::Finalised => Ok(AbortOutcome::Finalised(timestamp(head.finished_at.unwrap_or_default()))),
        RunState::Aborted => Ok(AbortOutcome::AlreadyAborted),
        RunState::Queued | RunState::Running | RunState::Sealed => {
            tx.run(&ABORT, vec![Arg::Text(run)]).await?;
            Ok(AbortOutcome::Aborted)
        }
    }
}

pub(super) async fn purge(tx: &mut Tx, min_age: Duration, max: usize, now: i64) -> Result<usize, Fault> {
    static OLDEST: Sql = Sql::new(
        "SELECT id FROM ingestion_runs WHERE purged = 0 AND finished_at <= $1 ORDER BY finished_at {limit $2} {skip locked}",
    );
    static DELETE: Sql = Sql::new(
        "DELETE FROM run_jobs WHERE run_id = $1 AND job_id IN
             (SELECT m.job_id FROM run_jobs m WHERE m.run_id = $1 {limit $2})
         RETURNING job_id",
    );
    static EXPIRE: Sql = Sql::new(
        "UPDATE ingestion_runs SET expired_at = coalesce(expired_at, $2), purged = $3 WHERE id = $1",
    );
    let before = millis(timestamp(now) - min_age);
    let mut purged = 0;
    while purged < max {
        let oldest = tx.run(&OLDEST, vec![Arg::Int(before), Arg::Int(1)]).await?;
        let Some(row) = oldest.first() else { break };
        let (run, left) = (row.text(0)?, max - purged);
        let limit = Arg::Int(saturating_i64(left as u64));
        let deleted = tx.run(&DELETE, vec![Arg::Text(&run), limit]).await?.len();
        let is_last = Arg::Int(i64::from(deleted < left));
        tx.run(&EXPIRE, vec![Arg::Text(&run), Arg::Int(now), is_last]).await?;
        purged += deleted;
    }
    Ok(purged)
}
