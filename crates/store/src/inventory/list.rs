//! Lists of records: which are wanted, and how to go on after a page.

use super::{Record, RecordId, Status};
use crate::Timestamp;
use std::{fmt, str::FromStr};

/// No page has more records.
pub const MOST_LISTED: usize = 1000;

/// No page has more records with their sources, each of which can be as large as a record may be.
pub const MOST_WITH_SOURCE: usize = 10;

/// Which records are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Made at this time or later.
    pub from: Option<Timestamp>,
    /// Made before this time.
    pub to: Option<Timestamp>,
    /// Of this status.
    pub status: Option<Status>,
    /// After the page that ended here.
    pub after: Option<Cursor>,
    /// How many at most; [`MOST_LISTED`] or [`MOST_WITH_SOURCE`] hold as well.
    pub limit: usize,
    /// With the sources of the pages. Without, they are not even read.
    pub with_source: bool,
}

impl Wanted {
    /// How many records a page has at most.
    pub fn page(&self) -> usize {
        self.limit.min(if self.with_source { MOST_WITH_SOURCE } else { MOST_LISTED })
    }
}

/// A page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The newest first.
    pub records: Vec<Record>,
    /// Where to go on, if there is more.
    pub next: Option<Cursor>,
}

impl Listed {
    /// A page of at most so many, from records of which there is one more if that is not all.
    pub fn page(mut records: Vec<Record>, most: usize) -> Self {
        let more = records.len() > most;
        records.truncate(most);
        let next = records.last().filter(|_| more).map(Cursor::at);
        Self { records, next }
    }
}

/// Where a page ended: at this record. Written as a word that a URL can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the record was made.
    pub created_at: Timestamp,
    /// Its id.
    pub id: RecordId,
}

impl Cursor {
    /// The end of a page with this record as its last.
    pub const fn at(record: &Record) -> Self {
        Self { created_at: record.created_at, id: record.id }
    }
}

/// Why a text is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no cursor; use the one that came with the page before")]
pub struct NotACursor(String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at.as_millis(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let read = || {
            let (millis, id) = text.split_once('-')?;
            let created_at = Timestamp::from_millis(millis.parse().ok()?);
            Some(Self { created_at, id: id.parse().ok()? })
        };
        read().ok_or_else(|| NotACursor(text.chars().take(80).collect()))
    }
}

/// How many records there are of each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u64; Status::ALL.len()]);

impl Counts {
    /// How many there are of this status.
    pub const fn of(&self, status: Status) -> u64 {
        self.0[status as usize]
    }

    /// Adds so many of a status.
    pub const fn add(&mut self, status: Status, many: u64) {
        self.0[status as usize] += many;
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each status and how many there are of it, none of them included.
    pub fn iter(&self) -> impl Iterator<Item = (Status, u64)> {
        Status::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let id = RecordId::of_url("https://a.example/");
        let cursor = Cursor { created_at: Timestamp::from_millis(1_700_000_000_001), id };
        assert_eq!(cursor.to_string(), format!("1700000000001-{id}"));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "-", "1-2", "x-8198d1bac40a1033653a78e4", "1 8198d1bac40a1033653a78e4"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_status_has_its_own_count() {
        let mut counts = Counts::default();
        for (many, status) in (1..).zip(Status::ALL) {
            counts.add(status, many);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), Status::ALL.into_iter().zip(1..).collect::<Vec<_>>());
        assert_eq!((counts.of(Status::Completed), counts.total()), (3, 15));
    }
}
