//! The time that a fetch may take: all requests of it share it, those for robots.txt included. Waiting for turns does not count.

use crate::error::{Code, Trouble};
use crawlway_clock::was_suspended_since;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What is left of the time of a fetch.
#[derive(Debug)]
pub(crate) struct Budget {
    total: Duration,
    spent: Duration,
    /// How many requests were cut off by a suspension of this process.
    suspensions: u32,
}

/// How many requests of a fetch are sent again because this process was suspended.
const MAX_SUSPENSIONS: u32 = 3;

impl Budget {
    pub(crate) fn new(total: Duration) -> Self {
        Self { total, spent: Duration::ZERO, suspensions: 0 }
    }

    /// Runs a request within the time that is left. One that failed while this process was suspended says nothing about its host: it
    /// is to be sent again, and its time does not count.
    pub(crate) async fn run<T>(
        &mut self,
        request: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let (total, spent, began) = (self.total, self.spent, std::time::Instant::now());
        let done = self.wait(request).await.unwrap_or_else(|| {
            Err(Trouble::new(Code::TimeoutTotal, format!("not done within {total:?}, robots.txt included")))
        });
        done.map_err(|trouble| {
            if self.suspensions == MAX_SUSPENSIONS || !was_suspended_since(began) {
                return trouble;
            }
            (self.suspensions, self.spent) = (self.suspensions + 1, spent);
            Trouble { stale: true, ..trouble }
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
