//! Runs with their counts, jobs of a run, records of jobs.

use super::rows;
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::runs::{
    Job, JobFilter, JobKey, MAX_PAGE_SIZE, OutcomeCounts, Run, RunJobPage, RunJobQuery, RunPage, RunQuery,
};
use std::collections::BTreeMap;

pub(super) async fn run(tx: &mut Tx, run: &str) -> Result<Option<Run>, Fault> {
    static RUN: Sql =
        Sql::new(concat!("SELECT ", rows::run_columns!(), " FROM ingestion_runs WHERE id = $1"));
    let found = tx.run(&RUN, vec![Arg::Text(run)]).await?;
    let mut runs = found.iter().map(rows::run).collect::<Result<Vec<_>, Fault>>()?;
    add_counts(tx, &mut runs).await?;
    Ok(runs.pop())
}

pub(super) async fn runs(tx: &mut Tx, query: &RunQuery) -> Result<RunPage, Fault> {
    macro_rules! list {
        ($state:literal) => {{
            static LIST: Sql = Sql::new(concat!(
                "SELECT ",
                rows::run_columns!(),
                " FROM ingestion_runs WHERE (started_at, id) < ($1, $2) ",
                $state,
                " ORDER BY started_at DESC, id DESC {limit $3}"
            ));
            &LIST
        }};
    }
    let max = query.limit.min(MAX_PAGE_SIZE);
    let (started_at, id) = match &query.after {
        Some(cursor) => (millis(cursor.started_at), &*cursor.id),
        None => (i64::MAX, ""),
    };
    let statement = if query.state.is_some() { list!("AND state = $4") } else { list!("") };
    let mut args = vec![Arg::Int(started_at), Arg::Text(id), Arg::Int(saturating_i64(max as u64 + 1))];
    args.extend(query.state.map(|state| Arg::Text(state.as_str())));
    let found = tx.run(statement, args).await?;
    let mut page = RunPage::from_rows(found.iter().map(rows::run).collect::<Result<_, Fault>>()?, max);
    add_counts(tx, &mut page.runs).await?;
    Ok(page)
}

/// Counts the jobs of runs that are not finished; the others have their counts.
async fn add_counts(tx: &mut Tx, runs: &mut [Run]) -> Result<(), Fault> {
    let mut unfinished: Vec<&mut Run> = runs.iter_mut().filter(|run| run.finished_at.is_none()).collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    let mut counted = counts(tx, unfinished.iter().map(|run| &*run.id)).await?;
    for run in &mut unfinished {
        run.counts = counted.remove(&run.id).unwrap_or_default();
    }
    Ok(())
}

pub(super) async fn counts<'r>(
    tx: &mut Tx,
    runs: impl IntoIterator<Item = &'r str>,
) -> Result<BTreeMap<String, OutcomeCounts>, Fault> {
    static COUNT: Sql = Sql::new(
        "SELECT run_id, outcome, count(*) FROM run_jobs WHERE run_id IN (SELECT r.id FROM {rows id text} r)
         GROUP BY run_id, outcome",
    );
    let mut counted: BTreeMap<String, OutcomeCounts> = BTreeMap::new();
    for row in tx.run(&COUNT, vec![Arg::Rows(Rows::of_texts(runs))]).await? {
        let outcome = row.opt_text(1)?.map(|outcome| rows::parse(&outcome)).transpose()?;
        counted.entry(row.text(0)?).or_default().add(outcome, row.count(2)?);
    }
    Ok(counted)
}

pub(super) async fn jobs(tx: &mut Tx, run: &str, query: &RunJobQuery, now: i64) -> Result<RunJobPage, Fault> {
    macro_rules! list {
        ($filter:literal) => {{
            static LIST: Sql = Sql::new(concat!(
                "SELECT j.company, j.external_id, j.url, m.position, m.stage, m.outcome, m.error_message, m.changed_at
                 FROM run_jobs m JOIN jobs j ON j.id = m.job_id
                 WHERE m.run_id = $1 AND m.position > $2 ",
                $filter,
                " ORDER BY m.position {limit $3}"
            ));
            &LIST
        }};
    }
    let max = query.limit.min(MAX_PAGE_SIZE);
    let after = query.after.map_or(-1, saturating_i64);
    let mut args = vec![Arg::Text(run), Arg::Int(after), Arg::Int(saturating_i64(max as u64 + 1))];
    let statement = match query.filter {
        JobFilter::All => list!(""),
        JobFilter::Open { min_age } => {
            // Clocks of processes may differ a little; all open jobs are all of them.
            let before = if min_age.is_zero() { i64::MAX } else { millis(timestamp(now) - min_age) };
            args.push(Arg::Int(before));
            list!("AND m.outcome IS NULL AND m.changed_at <= $4")
        }
        JobFilter::Settled(outcome) => {
            args.push(Arg::Text(outcome.as_str()));
            list!("AND m.outcome = $4")
        }
    };
    let found = tx.run(statement, args).await?;
    Ok(RunJobPage::from_rows(found.iter().map(rows::run_job).collect::<Result<_, Fault>>()?, max))
}

pub(super) async fn job(tx: &mut Tx, key: &JobKey) -> Result<Option<Job>, Fault> {
    static JOB: Sql = Sql::new(
        "SELECT company, external_id, url, status, error_message, simhash, blob_key, stored_at, title, description, requirements,
             language, location, employment_type, salary, extracted_at, first_run_id, last_run_id, created_at, updated_at
         FROM jobs WHERE company = $1 AND external_id = $2",
    );
    let found = tx.run(&JOB, vec![Arg::Text(key.company()), Arg::Text(key.external_id())]).await?;
    found.first().map(rows::job).transpose()
}
