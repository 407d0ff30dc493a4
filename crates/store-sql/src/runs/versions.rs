//! A job before it is processed, and its stored version.

use super::{
    RunLock, lock,
    rows::{parse, version},
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
};
use crawlway_store::runs::{JobCheck, JobKey, JobOutcome, JobVersion, StoreVersionOutcome};

pub(super) async fn check(tx: &mut Tx, run: &str, job: &JobKey) -> Result<Option<JobCheck>, Fault> {
    macro_rules! check {
        ($breaker:literal) => {
            concat!(
                "SELECT r.state, CASE WHEN r.use_test_db THEN 1 ELSE 0 END, CASE WHEN ",
                $breaker,
                " THEN 1 ELSE 0 END, m.stage, m.outcome, j.simhash, j.blob_key
                 FROM ingestion_runs r
                 LEFT JOIN jobs j ON j.company = $2 AND j.external_id = $3
                 LEFT JOIN run_jobs m ON m.run_id = r.id AND m.job_id = j.id
                 WHERE r.id = $1"
            )
        };
    }
    static CHECK: Sql = Sql::pair(
        check!("EXISTS (SELECT 1 FROM json_each(r.run_metadata, '$.breakers') b WHERE b.key = $2)"),
        check!("coalesce(jsonb_exists(r.run_metadata -> 'breakers', $2), false)"),
    );
    let args = vec![Arg::Text(run), Arg::Text(job.company()), Arg::Text(job.external_id())];
    let rows = tx.run(&CHECK, args).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let outcome = row.opt_text(4)?.map(|outcome| parse(&outcome)).transpose()?;
    Ok(Some(JobCheck {
        state: parse(&row.text(0)?)?,
        use_test_db: row.int(1)? == 1,
        breaker_open: row.int(2)? == 1,
        job: row.opt_text(3)?.map(|stage| Ok::<_, Fault>((parse(&stage)?, outcome))).transpose()?,
        version: version(row, 5, 6)?,
    }))
}

pub(super) async fn store(
    tx: &mut Tx,
    run: &str,
    job: &JobKey,
    expected: Option<i64>,
    version: &JobVersion,
    now: i64,
) -> Result<StoreVersionOutcome, Fault> {
    static PRESENT: Sql = Sql::new(
        "SELECT j.id, j.simhash, m.outcome FROM jobs j JOIN run_jobs m ON m.run_id = $1 AND m.job_id = j.id
         WHERE j.company = $2 AND j.external_id = $3 {for update}",
    );
    static STORE: Sql = Sql::new(
        "UPDATE jobs SET simhash = $3, blob_key = $4, stored_at = $5, updated_at = $5, error_message = NULL,
             status = CASE WHEN last_run_id = $1 THEN 'crawled' ELSE status END
         WHERE id = $2",
    );
    static HAND_OVER: Sql =
        Sql::new("UPDATE run_jobs SET stage = 'extract', changed_at = $3 WHERE run_id = $1 AND job_id = $2");
    lock(tx, run, RunLock::Shared).await?;
    let args = vec![Arg::Text(run), Arg::Text(job.company()), Arg::Text(job.external_id())];
    let rows = tx.run(&PRESENT, args).await?;
    let Some(row) = rows.first() else { return Ok(StoreVersionOutcome::Unknown) };
    let (id, present) = (row.int(0)?, row.opt_int(1)?);
    let outcome = row.opt_text(2)?.map(|outcome| parse::<JobOutcome>(&outcome)).transpose()?;
    if let Some(outcome) = outcome.filter(|outcome| !outcome.is_amendable()) {
        return Ok(StoreVersionOutcome::Settled(outcome));
    }
    if present != expected && present != Some(version.simhash) {
        return Ok(StoreVersionOutcome::Changed { present });
    }
    let JobVersion { simhash, blob_key } = version;
    let args = vec![Arg::Text(run), Arg::Int(id), Arg::Int(*simhash), Arg::Text(blob_key), Arg::Int(now)];
    tx.run(&STORE, args).await?;
    tx.run(&HAND_OVER, vec![Arg::Text(run), Arg::Int(id), Arg::Int(now)]).await?;
    Ok(StoreVersionOutcome::Stored)
}
