//! Outcomes of jobs: each settled once, with the failures of its company.

use super::{
    RunLock, lock,
    rows::{head, parse, save_metadata},
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::timestamp,
};
use crawlway_store::{
    inventory::sanitize_error,
    runs::{Extraction, JobOutcome, OutcomeCounts, SettleOutcome, Settlement},
};

/// A job of the run: its id, and its outcome so far.
type Present = Option<(i64, Option<JobOutcome>)>;

/// What becomes of a settlement.
enum Step {
    /// The outcome is set.
    Apply {
        id: i64,
        from: Option<JobOutcome>,
    },
    /// Only the extraction is stored: a replay of the extractor.
    ExtractAgain {
        id: i64,
    },
    Nothing(SettleOutcome),
}

pub(super) async fn settle(
    tx: &mut Tx,
    run: &str,
    settlements: &[Settlement],
    now: i64,
) -> Result<Vec<SettleOutcome>, Fault> {
    let mut present = present(tx, run, settlements).await?;
    // Amendments and failures change the metadata of the run.
    let amends = |present: &Present| present.and_then(|(_, from)| from).is_some_and(JobOutcome::is_amendable);
    let fails = settlements.iter().any(|settlement| settlement.outcome == JobOutcome::Failed);
    let exclusive = fails || present.iter().any(amends);
    if exclusive {
        lock(tx, run, RunLock::Exclusive).await?;
        present = self::present(tx, run, settlements).await?;
    } else {
        lock(tx, run, RunLock::Shared).await?;
    }
    let steps: Vec<Step> = settlements.iter().zip(present).map(|(new, present)| step(new, present)).collect();
    apply(tx, run, settlements, &steps, exclusive, now).await?;
    store_extractions(tx, settlements, &steps, now).await?;
    let opened = if exclusive { count(tx, run, settlements, &steps, now).await? } else { vec![] };
    let outcome = |(place, step): (usize, &Step)| {
        let opened_breaker = opened.contains(&place);
        match *step {
            Step::Apply { from: None, .. } => SettleOutcome::Settled { opened_breaker },
            Step::Apply { from: Some(from), .. } => SettleOutcome::Amended { from, opened_breaker },
            Step::ExtractAgain { .. } => SettleOutcome::AlreadySettled(JobOutcome::Stored),
            Step::Nothing(outcome) => outcome,
        }
    };
    Ok(steps.iter().enumerate().map(outcome).collect())
}

fn step(new: &Settlement, present: Present) -> Step {
    match present {
        None => Step::Nothing(SettleOutcome::Unknown),
        Some((id, None)) => Step::Apply { id, from: None },
        Some((id, Some(from))) if from.is_amendable() && !new.outcome.is_amendable() => {
            Step::Apply { id, from: Some(from) }
        }
        Some((id, Some(JobOutcome::Stored)))
            if new.outcome == JobOutcome::Stored && new.extraction.is_some() =>
        {
            Step::ExtractAgain { id }
        }
        Some((_, Some(outcome))) => Step::Nothing(SettleOutcome::AlreadySettled(outcome)),
    }
}

async fn present(tx: &mut Tx, run: &str, settlements: &[Settlement]) -> Result<Vec<Present>, Fault> {
    static PRESENT: Sql = Sql::new(
        "SELECT r.place, j.id, m.outcome
         FROM {rows place int, company text, external_id text} r CROSS JOIN jobs j CROSS JOIN run_jobs m
         WHERE j.company = r.company AND j.external_id = r.external_id AND m.run_id = $2 AND m.job_id = j.id",
    );
    let mut rows = Rows::new();
    for (place, settlement) in (0..).zip(settlements) {
        rows.row().int(place).text(settlement.job.company()).text(settlement.job.external_id());
    }
    let mut present = vec![None; settlements.len()];
    for row in tx.run(&PRESENT, vec![Arg::Rows(rows), Arg::Text(run)]).await? {
        let outcome = row.opt_text(2)?.map(|outcome| parse(&outcome)).transpose()?;
        present[row.small(0)? as usize] = Some((row.int(1)?, outcome));
    }
    Ok(present)
}

/// Sets outcomes, in the run and in the records whose last run it is.
async fn apply(
    tx: &mut Tx,
    run: &str,
    settlements: &[Settlement],
    steps: &[Step],
    exclusive: bool,
    now: i64,
) -> Result<(), Fault> {
    // The run is in the rows, so that SQLite looks up each job instead of all jobs of the run.
    static SETTLE: Sql = Sql::new(
        "UPDATE run_jobs SET outcome = r.outcome, error_message = r.error, changed_at = $2
         FROM {rows job int, outcome text, error text, run text} r
         WHERE run_jobs.run_id = r.run AND run_jobs.job_id = r.job
             AND (run_jobs.outcome IS NULL OR ($3 = 1 AND run_jobs.outcome IN ('dead', 'dropped', 'expired')))
         RETURNING job_id",
    );
    static RECORD: Sql = Sql::new(
        "UPDATE jobs SET status = r.outcome, error_message = r.error, updated_at = $3
         FROM {rows job int, outcome text, error text} r
         WHERE jobs.id = r.job AND jobs.last_run_id = $2",
    );
    let mut applied: Vec<(i64, &Settlement)> = steps
        .iter()
        .zip(settlements)
        .filter_map(|(step, settlement)| match step {
            Step::Apply { id, .. } => Some((*id, settlement)),
            _ => None,
        })
        .collect();
    if applied.is_empty() {
        return Ok(());
    }
    // One order of locks for all, against deadlocks.
    applied.sort_by_key(|(id, _)| *id);
    let rows = || {
        let mut rows = Rows::new();
        for (id, settlement) in &applied {
            let error = settlement.error.as_deref().map(sanitize_error);
            rows.row().int(*id).text(settlement.outcome.as_str()).opt_text(error.as_deref()).text(run);
        }
        Arg::Rows(rows)
    };
    let args = vec![rows(), Arg::Int(now), Arg::Int(i64::from(exclusive))];
    if tx.run(&SETTLE, args).await?.len() < applied.len() {
        return Err(Fault::Conflict("another worker settled one of the jobs".to_owned()));
    }
    tx.run(&RECORD, vec![rows(), Arg::Text(run), Arg::Int(now)]).await?;
    Ok(())
}

async fn store_extractions(
    tx: &mut Tx,
    settlements: &[Settlement],
    steps: &[Step],
    now: i64,
) -> Result<(), Fault> {
    static STORE: Sql = Sql::new(
        "UPDATE jobs SET title = coalesce(r.title, jobs.title), description = r.description, requirements = r.requirements,
             language = r.language, location = r.location, employment_type = r.employment_type, salary = r.salary,
             extracted_at = $2, updated_at = $2
         FROM {rows job int, title text, description text, requirements text, language text, location text,
               employment_type text, salary text} r
         WHERE jobs.id = r.job",
    );
    let mut rows = Rows::new();
    for (step, settlement) in steps.iter().zip(settlements) {
        let (Step::Apply { id, .. } | Step::ExtractAgain { id }) = step else { continue };
        let Some(extraction) = &settlement.extraction else { continue };
        let Extraction { title, description, requirements, language, location, employment_type, salary } =
            extraction;
        rows.row().int(*id);
        for text in [title, description, requirements, language, location, employment_type, salary] {
            rows.opt_text(text.as_deref());
        }
    }
    if !rows.is_empty() {
        tx.run(&STORE, vec![Arg::Rows(rows), Arg::Int(now)]).await?;
    }
    Ok(())
}

/// Counts failures, and amends the counts of a finished run. Returns the places of those that opened a breaker.
async fn count(
    tx: &mut Tx,
    run: &str,
    settlements: &[Settlement],
    steps: &[Step],
    now: i64,
) -> Result<Vec<usize>, Fault> {
    static SAVE: Sql = Sql::new("UPDATE ingestion_runs SET run_metadata = {json $2} WHERE id = $1");
    let Some(mut head) = head(tx, run).await? else { return Ok(vec![]) };
    let mut opened = Vec::new();
    let mut counts = head.metadata.counts.as_ref().map(OutcomeCounts::from_metadata);
    for (place, (step, settlement)) in steps.iter().zip(settlements).enumerate() {
        let Step::Apply { from, .. } = step else { continue };
        if let (Some(counts), Some(from)) = (&mut counts, from) {
            counts.amend(*from, settlement.outcome);
        }
        let fails = settlement.outcome == JobOutcome::Failed;
        if fails && head.metadata.count_failure(settlement.job.company(), timestamp(now)) {
            opened.push(place);
        }
    }
    head.metadata.counts = counts.map(|counts| counts.to_metadata());
    tx.run(&SAVE, vec![Arg::Text(run), Arg::Text(&save_metadata(&head.metadata))]).await?;
    Ok(opened)
}
