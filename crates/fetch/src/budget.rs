//! The time that a fetch may take: all requests of it share it, those for robots.txt included. Waiting for turns does not count.

use crate::error::{Code, Trouble};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What is left of the time of a fetch.
#[derive(Debug)]
pub(crate) struct Budget {
    total: Duration,
    spent: Duration,
}

impl Budget {
    pub(crate) fn new(total: Duration) -> Self {
        Self { total, spent: Duration::ZERO }
    }

    /// Runs a request within the time that is left.
    pub(crate) async fn run<T>(
        &mut self,
        request: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let total = self.total;
        self.wait(request).await.unwrap_or_else(|| {
            Err(Trouble::new(Code::TimeoutTotal, format!("not done within {total:?}, robots.txt included")))
        })
    }

    /// Waits for something as long as there is time left.
    pub(crate) async fn wait<T>(&mut self, something: impl Future<Output = T>) -> Option<T> {
        let started = Instant::now();
        let done = timeout(self.total.saturating_sub(self.spent), something).await;
        self.spent += started.elapsed();
        done.ok()
    }

    /// Whether a host that does not answer in the time that is left is too slow. Otherwise those before it were, and could make it
    /// look as if it were down.
    pub(crate) fn is_fair(&self) -> bool {
        self.spent <= self.total / 2
    }
}
