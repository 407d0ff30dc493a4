//! Time budget of a fetch, shared by all its requests, those for robots.txt included. The wait for permits does not count.

use crate::error::{FetchCode, HopError};
use crawlway_clock::was_suspended_since;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time budget of one fetch.
#[derive(Debug)]
pub(crate) struct TimeBudget {
    total: Duration,
    spent: Duration,
    /// Number of requests that failed because this process was suspended.
    suspensions: u32,
}

/// Maximum number of requests of a fetch that are sent again after a suspension of this process.
const MAX_SUSPENSIONS: u32 = 3;

impl TimeBudget {
    pub(crate) fn new(total: Duration) -> Self {
        Self { total, spent: Duration::ZERO, suspensions: 0 }
    }

    /// Runs a request within the rest of the budget. A failure during a suspension of this process says nothing about the
    /// host: it is marked stale, so that the request is sent again, and its time does not count.
    pub(crate) async fn run<T>(
        &mut self,
        request: impl Future<Output = Result<T, HopError>>,
    ) -> Result<T, HopError> {
        let (total, spent, began) = (self.total, self.spent, std::time::Instant::now());
        let done = self.wait(request).await.unwrap_or_else(|| {
            let detail = format!("not complete within {total:?}, robots.txt included");
            Err(HopError::new(FetchCode::TimeoutTotal, detail))
        });
        done.map_err(|error| {
            if self.suspensions == MAX_SUSPENSIONS || !was_suspended_since(began) {
                return error;
            }
            (self.suspensions, self.spent) = (self.suspensions + 1, spent);
            HopError { stale: true, ..error }
        })
    }

    /// Runs a future within the rest of the budget; `None` on a timeout.
    pub(crate) async fn wait<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let started = Instant::now();
        let done = timeout(self.total.saturating_sub(self.spent), future).await;
        self.spent += started.elapsed();
        done.ok()
    }

    /// Whether at least half of the budget is left. With less, a timeout is not counted as a failure of this host, since earlier hops have used up the time.
    pub(crate) fn is_half_left(&self) -> bool {
        self.spent <= self.total / 2
    }
}
