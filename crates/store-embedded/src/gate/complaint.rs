//! A warning that is due all the time and said once in a while.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

const EVERY: Duration = Duration::from_secs(60);

/// Says that a file cannot be written, at most once a minute.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    last: Option<Instant>,
}

impl Complaint {
    pub(super) fn about(&mut self, path: &Path, error: &io::Error) {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        tracing::warn!(
            file = %path.display(),
            %error,
            "the gate cannot write down what it must remember; it goes on, but if this process ends now, the next \
             one may ask a group too early: see to free space and permissions"
        );
    }
}
