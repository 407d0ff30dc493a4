//! Rows of runs and jobs as types of the contract.

use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    time::timestamp,
};
use crawlway_store::runs::{
    Extraction, Job, JobKey, JobVersion, OutcomeCounts, Run, RunJob, RunMetadata, RunState,
};
use std::str::FromStr;

/// Columns for [`run`].
macro_rules! run_columns {
    () => {
        "id, state, CASE WHEN use_test_db THEN 1 ELSE 0 END, CAST(run_metadata AS TEXT), jobs, queued_position, started_at,
         sealed_at, finished_at, expired_at"
    };
}
pub(super) use run_columns;

/// What a transaction needs of a run that it has locked.
pub(super) struct RunHead {
    pub(super) state: RunState,
    pub(super) metadata: RunMetadata,
    pub(super) finished_at: Option<i64>,
}

pub(super) async fn head(tx: &mut Tx, run: &str) -> Result<Option<RunHead>, Fault> {
    static HEAD: Sql =
        Sql::new("SELECT state, CAST(run_metadata AS TEXT), finished_at FROM ingestion_runs WHERE id = $1");
    let rows = tx.run(&HEAD, vec![Arg::Text(run)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(RunHead {
        state: parse(&row.text(0)?)?,
        metadata: read_metadata(&row.text(1)?)?,
        finished_at: row.opt_int(2)?,
    }))
}

pub(super) fn save_metadata(metadata: &RunMetadata) -> String {
    // Cannot fail: all keys are texts.
    serde_json::to_string(metadata).unwrap_or_default()
}

fn read_metadata(json: &str) -> Result<RunMetadata, Fault> {
    serde_json::from_str(json)
        .map_err(|error| Fault::Failed(format!("the `run_metadata` of a run is damaged: {error}")))
}

/// A stored name.
pub(super) fn parse<T: FromStr<Err = String>>(name: &str) -> Result<T, Fault> {
    name.parse().map_err(|error| Fault::Failed(format!("a run or job is damaged: {error}")))
}

/// A run; its counts only if it is finished.
pub(super) fn run(row: &Row) -> Result<Run, Fault> {
    let metadata = read_metadata(&row.text(3)?)?;
    Ok(Run {
        id: row.text(0)?,
        state: parse(&row.text(1)?)?,
        use_test_db: row.int(2)? == 1,
        jobs: row.count(4)?,
        queued_position: row.count(5)?,
        counts: metadata.counts.as_ref().map(OutcomeCounts::from_metadata).unwrap_or_default(),
        started_at: timestamp(row.int(6)?),
        sealed_at: row.opt_int(7)?.map(timestamp),
        finished_at: row.opt_int(8)?.map(timestamp),
        expired_at: row.opt_int(9)?.map(timestamp),
        metadata,
    })
}

pub(super) fn key(company: String, external_id: String) -> Result<JobKey, Fault> {
    JobKey::new(company, external_id).map_err(|error| Fault::Failed(format!("a job is damaged: {error}")))
}

pub(super) fn version(row: &Row, simhash: usize, blob_key: usize) -> Result<Option<JobVersion>, Fault> {
    let version = row.opt_int(simhash)?.zip(row.opt_text(blob_key)?);
    Ok(version.map(|(simhash, blob_key)| JobVersion { simhash, blob_key }))
}

pub(super) fn run_job(row: &Row) -> Result<RunJob, Fault> {
    Ok(RunJob {
        key: key(row.text(0)?, row.text(1)?)?,
        url: row.text(2)?,
        position: row.count(3)?,
        stage: parse(&row.text(4)?)?,
        outcome: row.opt_text(5)?.map(|outcome| parse(&outcome)).transpose()?,
        error_message: row.opt_text(6)?,
        changed_at: timestamp(row.int(7)?),
    })
}

pub(super) fn job(row: &Row) -> Result<Job, Fault> {
    Ok(Job {
        key: key(row.text(0)?, row.text(1)?)?,
        url: row.text(2)?,
        status: parse(&row.text(3)?)?,
        error_message: row.opt_text(4)?,
        version: version(row, 5, 6)?,
        stored_at: row.opt_int(7)?.map(timestamp),
        extraction: Extraction {
            title: row.opt_text(8)?,
            description: row.opt_text(9)?,
            requirements: row.opt_text(10)?,
            language: row.opt_text(11)?,
            location: row.opt_text(12)?,
            employment_type: row.opt_text(13)?,
            salary: row.opt_text(14)?,
        },
        extracted_at: row.opt_int(15)?.map(timestamp),
        first_run: row.text(16)?,
        last_run: row.text(17)?,
        created_at: timestamp(row.int(18)?),
        updated_at: timestamp(row.int(19)?),
    })
}
