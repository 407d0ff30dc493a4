//! How fetches ended, counted by code.

use crate::error::FetchError;
use http::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Counts fetches by the status of the answer, such as `200`, or by the code of the error, such as `timeout.connect`.
/// Bounded, since there are so many codes and no more.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    answers: Mutex<BTreeMap<u16, u64>>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    pub(crate) fn answered(&self, status: StatusCode) {
        *self.answers.lock().entry(status.as_u16()).or_default() += 1;
    }

    pub(crate) fn failed(&self, error: &FetchError) {
        let mut failures = self.failures.lock();
        *failures.entry(error.code.as_str()).or_default() += 1;
    }

    pub(crate) fn read(&self) -> BTreeMap<String, u64> {
        let answers = self.answers.lock().clone();
        let failures = self.failures.lock().clone();
        let answers = answers.into_iter().map(|(status, count)| (status.to_string(), count));
        answers.chain(failures.into_iter().map(|(code, count)| (code.to_owned(), count))).collect()
    }
}
