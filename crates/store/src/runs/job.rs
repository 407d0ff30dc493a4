//! Jobs: key, record, outcome in a run.

use crate::Timestamp;
use std::{fmt, str::FromStr};

/// Maximum size of a company name and of an external id, in bytes each.
pub const MAX_KEY_BYTES: usize = 1200;

/// Company and external id of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    company: String,
    external_id: String,
}

/// Error of a company name or an external id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}; expected 1 to {MAX_KEY_BYTES} bytes without control characters")]
pub struct InvalidJobKey {
    /// `company` or `external_id`.
    pub field: &'static str,
    /// What is wrong.
    pub problem: String,
}

impl JobKey {
    /// Key of a job.
    pub fn new(company: impl Into<String>, external_id: impl Into<String>) -> Result<Self, InvalidJobKey> {
        let key = Self { company: company.into(), external_id: external_id.into() };
        for (field, text) in [("company", &key.company), ("external_id", &key.external_id)] {
            let problem = match text.len() {
                0 => "is empty".to_owned(),
                bytes if bytes > MAX_KEY_BYTES => format!("has {bytes} bytes"),
                _ if text.contains(char::is_control) => format!("{text:?} has a control character"),
                _ => continue,
            };
            return Err(InvalidJobKey { field, problem });
        }
        Ok(key)
    }

    /// Company, which is also the group of the job.
    pub fn company(&self) -> &str {
        &self.company
    }

    /// Id within the company.
    pub fn external_id(&self) -> &str {
        &self.external_id
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.company, self.external_id)
    }
}

/// A job for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Key.
    pub key: JobKey,
    /// URL of its page.
    pub url: String,
    /// Title, if the source has one. Without one, the record keeps its title.
    pub title: Option<String>,
    /// Position in the source, such as its line. It tells a repeated call from a duplicate, and is the order of lists.
    pub position: u64,
}

/// Outcome of [`RunStore::add_jobs`](super::RunStore::add_jobs) for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddOutcome {
    /// The job has no record of an earlier run.
    New,
    /// The job is known from an earlier run.
    Known,
    /// The run has the job at this position: the call is repeated.
    Repeated,
    /// The run has another job with this key, which is unchanged.
    Duplicate {
        /// Position of the first one.
        first: u64,
    },
}

/// Defines an enum with a lower-case name for each variant, as it is stored and shown.
macro_rules! named {
    ($(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum {
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name in the store.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let named = Self::ALL.iter().copied().find(|value| value.as_str() == name);
                named.ok_or_else(|| format!("`{name}` is none of {}", [$($name),*].join(", ")))
            }
        }
    };
}
pub(super) use named;

named! {
    /// Outcome of a job in a run.
    JobOutcome {
        /// A new version is stored and extracted.
        Stored = "stored",
        /// The page is near the stored version, which is kept.
        Unchanged = "unchanged",
        /// The page is gone: 404 or 410.
        Closed = "closed",
        /// All tries failed, which counts one failure of the company.
        Failed = "failed",
        /// The breaker of the company was open; the page was not requested.
        Skipped = "skipped",
        /// The run was aborted before.
        Aborted = "aborted",
        /// The message is a dead letter.
        Dead = "dead",
        /// The dead letter was dropped, or the queue purged.
        Dropped = "dropped",
        /// The message is gone without a trace.
        Expired = "expired",
    }
}

impl JobOutcome {
    /// Whether only the message is gone, so that a later outcome amends this one.
    pub const fn is_amendable(self) -> bool {
        matches!(self, Self::Dead | Self::Dropped | Self::Expired)
    }
}

named! {
    /// Stage of an open job, which is where its message is.
    JobStage {
        /// `CrawlerQueue.fifo`.
        Crawl = "crawl",
        /// `ExtractorQueue.fifo`.
        Extract = "extract",
    }
}

/// Status of a job's record: where it stands in its last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// `queued`: waits for the crawler.
    Queued,
    /// `crawled`: its page is stored and waits for the extractor.
    Crawled,
    /// Name of the outcome.
    Settled(JobOutcome),
}

impl JobStatus {
    /// Name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Crawled => "crawled",
            Self::Settled(outcome) => outcome.as_str(),
        }
    }
}

impl FromStr for JobStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "queued" => Ok(Self::Queued),
            "crawled" => Ok(Self::Crawled),
            outcome => outcome.parse().map(Self::Settled),
        }
    }
}

/// Stored page of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobVersion {
    /// SimHash of its text: 64 bits in two's complement.
    pub simhash: i64,
    /// Key of the blob with the HTML.
    pub blob_key: String,
}

/// What the extractor found on a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extraction {
    /// Title of the page's job; without one, the record keeps its title.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Requirements.
    pub requirements: Option<String>,
    /// Language tag.
    pub language: Option<String>,
    /// Location.
    pub location: Option<String>,
    /// Employment type.
    pub employment_type: Option<String>,
    /// Salary.
    pub salary: Option<String>,
}

/// Record of a job: the row of `jobs` that other programs read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Key.
    pub key: JobKey,
    /// URL of its page.
    pub url: String,
    /// Where it stands in its last run.
    pub status: JobStatus,
    /// Why it failed in its last run.
    pub error_message: Option<String>,
    /// Last stored version.
    pub version: Option<JobVersion>,
    /// When that was stored.
    pub stored_at: Option<Timestamp>,
    /// Result of the last extraction, with the title of the record.
    pub extraction: Extraction,
    /// When that was stored.
    pub extracted_at: Option<Timestamp>,
    /// Run that added the record.
    pub first_run: String,
    /// Last run that added the job.
    pub last_run: String,
    /// Time of the first run's addition.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_checked() {
        let wrong =
            |company: &str, id: &str| JobKey::new(company, id).expect_err("an invalid key").to_string();
        let long = "x".repeat(MAX_KEY_BYTES + 1);
        assert_eq!(wrong("", "1"), "company is empty; expected 1 to 1200 bytes without control characters");
        assert_eq!(
            wrong("a", &long),
            "external_id has 1201 bytes; expected 1 to 1200 bytes without control characters"
        );
        assert!(wrong("a\0b", "1").contains(r#"company "a\0b" has a control character"#));
        for odd in ["..", "a/b", "\u{1f577}", &"é".repeat(300)] {
            assert_eq!(JobKey::new(odd, "1").map(|key| key.to_string()), Ok(format!("{odd}/1")));
        }
    }

    #[test]
    fn every_name_is_read_back() {
        for outcome in JobOutcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(*outcome));
            assert_eq!(outcome.as_str().parse(), Ok(JobStatus::Settled(*outcome)));
        }
        for status in [JobStatus::Queued, JobStatus::Crawled] {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!(
            "open".parse::<JobOutcome>().is_err_and(|error| error.starts_with("`open` is none of stored, "))
        );
    }
}
