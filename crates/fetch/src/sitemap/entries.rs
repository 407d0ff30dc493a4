//! Entries of a sitemap within the limits, and counters of the skipped ones.

use super::{Entry, MAX_URL_BYTES, MAX_URLS, Problem};

#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    too_many: usize,
    too_long: usize,
    without_url: usize,
}

impl Entries {
    pub(super) fn add(&mut self, entry: Entry) {
        if entry.loc.is_empty() {
            self.without_url += 1;
        } else if entry.loc.len() > MAX_URL_BYTES {
            self.too_long += 1;
        } else if self.entries.len() == MAX_URLS {
            self.too_many += 1;
        } else {
            self.entries.push(entry);
        }
    }

    /// Whether there was any URL, even if it was skipped.
    pub(super) fn has_urls(&self) -> bool {
        !self.entries.is_empty() || self.too_long > 0
    }

    pub(super) fn finish(self, problems: &mut Vec<Problem>) -> Vec<Entry> {
        for (left_out, problem) in [
            (self.too_many, Problem::TooManyUrls { left_out: self.too_many }),
            (self.too_long, Problem::LongUrls { left_out: self.too_long }),
            (self.without_url, Problem::NoUrl { left_out: self.without_url }),
        ] {
            if left_out > 0 {
                problems.push(problem);
            }
        }
        self.entries
    }
}
