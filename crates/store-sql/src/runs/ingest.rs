//! Ingestion: the start of a run, its jobs in batches, its seal.

use super::{
    RunLock, lists, lock,
    rows::{head, save_metadata},
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::saturating_i64,
};
use crawlway_store::runs::{AddOutcome, JobStage, NewJob, NewRun, Run, StartOutcome};
use std::collections::BTreeMap;

pub(super) async fn start(tx: &mut Tx, run: &NewRun, now: i64) -> Result<StartOutcome, Fault> {
    static START: Sql = Sql::new(
        "INSERT INTO ingestion_runs (id, state, use_test_db, run_metadata, jobs, queued_position, started_at, purged)
         VALUES ($1, 'queued', $2 = 1, {json $3}, 0, 0, $4, 0) ON CONFLICT (id) DO NOTHING RETURNING id",
    );
    let metadata = save_metadata(&run.metadata());
    let args =
        vec![Arg::Text(&run.id), Arg::Int(i64::from(run.use_test_db)), Arg::Text(&metadata), Arg::Int(now)];
    let is_new = !tx.run(&START, args).await?.is_empty();
    match lists::run(tx, &run.id).await? {
        Some(run) if is_new => Ok(StartOutcome::Started(run)),
        Some(run) => Ok(StartOutcome::Exists(run)),
        None => Err(Fault::Conflict("a run is not visible yet".to_owned())),
    }
}

pub(super) async fn add_jobs(
    tx: &mut Tx,
    run: &str,
    jobs: &[NewJob],
    now: i64,
) -> Result<Option<Vec<AddOutcome>>, Fault> {
    static TAKE: Sql =
        Sql::new("UPDATE ingestion_runs SET state = 'running', jobs = jobs + $2 WHERE id = $1");
    lock(tx, run, RunLock::Exclusive).await?;
    if !head(tx, run).await?.is_some_and(|head| head.state.takes_jobs()) {
        return Ok(None);
    }
    let positions = present(tx, run, jobs).await?;
    let mut outcomes = vec![AddOutcome::Repeated; jobs.len()];
    // In the order of keys, against deadlocks with other runs.
    let mut added: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let key = (job.key.company(), job.key.external_id());
        let earlier = || added.get(&key).map(|first| jobs[*first].position);
        match positions.get(&place).copied().or_else(earlier) {
            Some(first) if first == job.position => {}
            Some(first) => outcomes[place] = AddOutcome::Duplicate { first },
            None => {
                added.insert(key, place);
            }
        }
    }
    let fresh: Vec<&NewJob> = added.values().map(|place| &jobs[*place]).collect();
    let ids = upsert(tx, run, &fresh, now).await?;
    insert(tx, run, &fresh, &ids, now).await?;
    for (place, (_, outcome)) in added.into_values().zip(&ids) {
        outcomes[place] = *outcome;
    }
    tx.run(&TAKE, vec![Arg::Text(run), Arg::Int(saturating_i64(ids.len() as u64))]).await?;
    Ok(Some(outcomes))
}

/// Positions of those jobs of the batch that the run has, by their place in the batch.
async fn present(tx: &mut Tx, run: &str, jobs: &[NewJob]) -> Result<BTreeMap<usize, u64>, Fault> {
    static PRESENT: Sql = Sql::new(
        "SELECT r.place, m.position
         FROM {rows place int, company text, external_id text} r CROSS JOIN jobs j CROSS JOIN run_jobs m
         WHERE j.company = r.company AND j.external_id = r.external_id AND m.run_id = $2 AND m.job_id = j.id",
    );
    let mut rows = Rows::new();
    for (place, job) in (0..).zip(jobs) {
        rows.row().int(place).text(job.key.company()).text(job.key.external_id());
    }
    let found = tx.run(&PRESENT, vec![Arg::Rows(rows), Arg::Text(run)]).await?;
    found.iter().map(|row| Ok((row.small(0)? as usize, row.count(1)?))).collect()
}

/// Upserts the records of jobs with different keys. Returns their ids and outcomes, in order.
async fn upsert(tx: &mut Tx, run: &str, jobs: &[&NewJob], now: i64) -> Result<Vec<(i64, AddOutcome)>, Fault> {
    static UPSERT: Sql = Sql::new(
        "INSERT INTO jobs (company, external_id, url, title, status, first_run_id, last_run_id, created_at, updated_at)
         SELECT r.company, r.external_id, r.url, r.title, 'queued', $2, $2, $3, $3
         FROM {rows company text, external_id text, url text, title text} r WHERE true
         ON CONFLICT (company, external_id) DO UPDATE SET
             url = excluded.url, title = coalesce(excluded.title, jobs.title), status = excluded.status,
             error_message = NULL, last_run_id = excluded.last_run_id, updated_at = excluded.updated_at
         RETURNING company, external_id, id, CASE WHEN first_run_id = $2 THEN 1 ELSE 0 END",
    );
    let mut rows = Rows::new();
    for job in jobs {
        rows.row().text(job.key.company()).text(job.key.external_id()).text(&job.url);
        rows.opt_text(job.title.as_deref());
    }
    let mut upserted = BTreeMap::new();
    for row in tx.run(&UPSERT, vec![Arg::Rows(rows), Arg::Text(run), Arg::Int(now)]).await? {
        let outcome = if row.int(3)? == 1 { AddOutcome::New } else { AddOutcome::Known };
        upserted.insert((row.text(0)?, row.text(1)?), (row.int(2)?, outcome));
    }
    let missing = || Fault::Failed("the database returned no id of an upserted job".to_owned());
    let id = |job: &&NewJob| {
        let key = (job.key.company().to_owned(), job.key.external_id().to_owned());
        upserted.get(&key).copied().ok_or_else(missing)
    };
    jobs.iter().map(id).collect()
}

async fn insert(
    tx: &mut Tx,
    run: &str,
    jobs: &[&NewJob],
    ids: &[(i64, AddOutcome)],
    now: i64,
) -> Result<(), Fault> {
    static INSERT: Sql = Sql::new(
        "INSERT INTO run_jobs (run_id, job_id, position, stage, changed_at)
         SELECT $2, r.job, r.position, $3, $4 FROM {rows job int, position int} r",
    );
    let mut rows = Rows::new();
    for (job, (id, _)) in jobs.iter().zip(ids) {
        rows.row().int(*id).int(saturating_i64(job.position));
    }
    let stage = Arg::Text(JobStage::Crawl.as_str());
    tx.run(&INSERT, vec![Arg::Rows(rows), Arg::Text(run), stage, Arg::Int(now)]).await?;
    Ok(())
}

pub(super) async fn seal(tx: &mut Tx, run: &str, now: i64) -> Result<Option<Run>, Fault> {
    static SEAL: Sql = Sql::new(
        "UPDATE ingestion_runs SET state = 'sealed', sealed_at = $2 WHERE id = $1 AND state IN ('queued', 'running')",
    );
    lock(tx, run, RunLock::Exclusive).await?;
    tx.run(&SEAL, vec![Arg::Text(run), Arg::Int(now)]).await?;
    lists::run(tx, run).await
}
