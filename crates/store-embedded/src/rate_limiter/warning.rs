//! Throttled warning about files that cannot be written.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

const INTERVAL: Duration = Duration::from_secs(60);

/// Warning about a file that cannot be written, logged at most once per [`INTERVAL`].
#[derive(Debug, Default)]
pub(super) struct WriteWarning {
    last: Option<Instant>,
}

impl WriteWarning {
    pub(super) fn log(&mut self, path: &Path, error: &io::Error) {
        if self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        tracing::warn!(
            file = %path.display(),
            %error,
            "the rate limiter cannot write its state; it goes on, but after a restart a request may be sent too early: \
             check free space and permissions"
        );
    }
}
