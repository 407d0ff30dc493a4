//! Counters of fetch outcomes, for metrics.

use crate::error::FetchError;
use http::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Counters of fetches by status, such as `200`, or by error code, such as `timeout.connect`.
#[derive(Debug, Default)]
pub(crate) struct OutcomeCounters {
    statuses: Mutex<BTreeMap<u16, u64>>,
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

impl OutcomeCounters {
    pub(crate) fn response(&self, status: StatusCode) {
        *self.statuses.lock().entry(status.as_u16()).or_default() += 1;
    }

    pub(crate) fn error(&self, error: &FetchError) {
        *self.errors.lock().entry(error.code.as_str()).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        let statuses = self.statuses.lock().clone();
        let errors = self.errors.lock().clone();
        let statuses = statuses.into_iter().map(|(status, count)| (status.to_string(), count));
        statuses.chain(errors.into_iter().map(|(code, count)| (code.to_owned(), count))).collect()
    }
}
