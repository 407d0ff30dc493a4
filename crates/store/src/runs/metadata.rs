//! Metadata of a run: the JSON in `ingestion_runs.run_metadata`, and counts per outcome.

use super::JobOutcome;
use crate::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The JSON in `ingestion_runs.run_metadata`, which other programs read. Fields that they add are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunMetadata {
    /// Where the jobs come from, such as the name of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Failures of a company that open its breaker; 0 for no breaker.
    #[serde(default)]
    pub max_failures: u32,
    /// Failed jobs by company.
    #[serde(default)]
    pub failures: BTreeMap<String, u32>,
    /// Open breakers: company and time of opening, ISO 8601.
    #[serde(default)]
    pub breakers: BTreeMap<String, String>,
    /// Jobs by outcome, once the run is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<BTreeMap<String, u64>>,
    /// Fields of other programs.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl RunMetadata {
    /// Counts a failure of a company. Whether that opened its breaker.
    pub fn count_failure(&mut self, company: &str, now: Timestamp) -> bool {
        let failures = self.failures.entry(company.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        let opens = *failures == self.max_failures;
        if opens {
            self.breakers.insert(company.to_owned(), now.to_iso());
        }
        opens
    }
}

/// Number of jobs of a run by outcome, and of those that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeCounts {
    /// Open jobs.
    pub open: u64,
    settled: [u64; JobOutcome::ALL.len()],
}

impl OutcomeCounts {
    /// Number of jobs with this outcome.
    pub const fn of(&self, outcome: JobOutcome) -> u64 {
        self.settled[outcome as usize]
    }

    /// Adds to the number of an outcome, or of the open jobs.
    pub const fn add(&mut self, outcome: Option<JobOutcome>, count: u64) {
        match outcome {
            Some(outcome) => self.settled[outcome as usize] += count,
            None => self.open += count,
        }
    }

    /// Moves one job from an outcome to another.
    pub const fn amend(&mut self, from: JobOutcome, to: JobOutcome) {
        self.settled[from as usize] = self.settled[from as usize].saturating_sub(1);
        self.settled[to as usize] += 1;
    }

    /// Number of settled jobs.
    pub fn settled(&self) -> u64 {
        self.settled.iter().sum()
    }

    /// Each outcome with its number of jobs, including zero.
    pub fn iter(&self) -> impl Iterator<Item = (JobOutcome, u64)> {
        JobOutcome::ALL.iter().copied().zip(self.settled)
    }

    /// The counts in the metadata of a finished run.
    pub fn from_metadata(counts: &BTreeMap<String, u64>) -> Self {
        let mut all = Self::default();
        for (name, count) in counts {
            if let Ok(outcome) = name.parse() {
                all.add(Some(outcome), *count);
            }
        }
        all
    }

    /// The counts for the metadata of a finished run.
    pub fn to_metadata(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(outcome, count)| (outcome.as_str().to_owned(), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_the_public_json() {
        let mut metadata = RunMetadata { max_failures: 2, ..RunMetadata::default() };
        metadata.other.insert("note".to_owned(), Value::from("of another program"));
        let at = Timestamp::from_millis(1_700_000_000_000);
        let opened = [(); 3].map(|()| metadata.count_failure("a", at));
        assert_eq!(opened, [false, true, false]);
        let json = serde_json::to_string(&metadata).unwrap();
        assert_eq!(
            json,
            r#"{"max_failures":2,"failures":{"a":3},"breakers":{"a":"2023-11-14T22:13:20.000Z"},"note":"of another program"}"#
        );
        assert_eq!(serde_json::from_str::<RunMetadata>(&json).unwrap(), metadata);
    }

    #[test]
    fn counts_round_trip() {
        let mut counts = OutcomeCounts::default();
        for (count, outcome) in (1..).zip(JobOutcome::ALL) {
            counts.add(Some(*outcome), count);
        }
        counts.amend(JobOutcome::Dead, JobOutcome::Stored);
        assert_eq!((counts.of(JobOutcome::Stored), counts.of(JobOutcome::Dead)), (2, 6));
        assert_eq!(OutcomeCounts::from_metadata(&counts.to_metadata()), counts);
        assert_eq!(counts.settled(), 45);
    }
}
