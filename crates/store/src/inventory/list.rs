//! Paginated lists of records, and counts by status.

use super::{InventoryRecord, RecordId, RecordStatus};
use crate::Timestamp;
use std::{fmt, str::FromStr};

/// Maximum page size.
pub const MAX_PAGE_SIZE: usize = 1000;

/// Maximum page size with page sources, each of which can have the maximum size of a record.
pub const MAX_PAGE_SIZE_WITH_SOURCE: usize = 10;

/// Query for a page of records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordQuery {
    /// Created at this time or later.
    pub from: Option<Timestamp>,
    /// Created before this time.
    pub to: Option<Timestamp>,
    /// With this status.
    pub status: Option<RecordStatus>,
    /// Cursor of the previous page.
    pub after: Option<Cursor>,
    /// Page size, capped at [`MAX_PAGE_SIZE`] or [`MAX_PAGE_SIZE_WITH_SOURCE`].
    pub limit: usize,
    /// Whether page sources are included. Otherwise they are not read from the store.
    pub with_source: bool,
}

impl RecordQuery {
    /// Effective page size.
    pub fn page_size(&self) -> usize {
        self.limit.min(if self.with_source { MAX_PAGE_SIZE_WITH_SOURCE } else { MAX_PAGE_SIZE })
    }
}

/// A page of records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordPage {
    /// The records, newest first.
    pub records: Vec<InventoryRecord>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<Cursor>,
}

impl RecordPage {
    /// A page of up to `max` records, from a query for `max + 1`: the extra record shows that there is a next page.
    pub fn from_rows(mut records: Vec<InventoryRecord>, max: usize) -> Self {
        let more = records.len() > max;
        records.truncate(max);
        let next = records.last().filter(|_| more).map(Cursor::at);
        Self { records, next }
    }
}

/// Pagination cursor: the last record of a page. Its text form is URL-safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Creation time of the record.
    pub created_at: Timestamp,
    /// Its id.
    pub id: RecordId,
}

impl Cursor {
    /// Cursor of a page that ends with this record.
    pub const fn at(record: &InventoryRecord) -> Self {
        Self { created_at: record.created_at, id: record.id }
    }
}

/// Error of a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cursor; use the one of the previous page")]
pub struct InvalidCursor(String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at.as_millis(), self.id)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let read = || {
            let (millis, id) = text.split_once('-')?;
            let created_at = Timestamp::from_millis(millis.parse().ok()?);
            Some(Self { created_at, id: id.parse().ok()? })
        };
        read().ok_or_else(|| InvalidCursor(text.chars().take(80).collect()))
    }
}

/// Number of records of each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusCounts([u64; RecordStatus::ALL.len()]);

impl StatusCounts {
    /// Number of records of this status.
    pub const fn of(&self, status: RecordStatus) -> u64 {
        self.0[status as usize]
    }

    /// Adds to the number of a status.
    pub const fn add(&mut self, status: RecordStatus, count: u64) {
        self.0[status as usize] += count;
    }

    /// Number of all records.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each status with its number of records, including zero.
    pub fn iter(&self) -> impl Iterator<Item = (RecordStatus, u64)> {
        RecordStatus::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
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
        let mut counts = StatusCounts::default();
        for (count, status) in (1..).zip(RecordStatus::ALL) {
            counts.add(status, count);
        }
        assert_eq!(
            counts.iter().collect::<Vec<_>>(),
            RecordStatus::ALL.into_iter().zip(1..).collect::<Vec<_>>()
        );
        assert_eq!((counts.of(RecordStatus::Completed), counts.total()), (3, 15));
    }
}
