//! Memory budget of all pages together, from the first byte of a response to the publish.
//!
//! ```text
//! budget ┬ 3/8 first MiB of each page, so that large pages never block usual ones
//!        ├ 3/8 memory of large pages beyond their first MiB
//!        └ 1/4 reserve for one large page at a time when the second part is used up: as much as one page may have
//! ```
//!
//! The page with the reserve never waits for another page, so that there is no deadlock between pages that grow.

use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory of a page from the first part of the budget.
const SMALL_BYTES: usize = 1 << 20;
/// Maximum wait for memory before the item is deferred.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Memory budget of all pages together; clones share it.
#[derive(Clone)]
pub struct MemoryBudget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    max_page_bytes: usize,
    wait_timeout: Duration,
}

/// Error of a page that needs more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryError {
    /// More than one page may have.
    PageTooLarge,
    /// The budget is used up by other pages.
    Exhausted,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("max_page_bytes", &self.max_page_bytes).finish_non_exhaustive()
    }
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(512 << 20)
    }
}

impl MemoryBudget {
    /// Budget of this many bytes, at least 8 MiB.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.max(8 << 20);
        let part = |eighths: usize| Arc::new(Semaphore::new(kib(bytes / 8 * eighths) as usize));
        Self {
            small: part(3),
            large: part(3),
            reserve: Arc::new(Semaphore::new(1)),
            max_page_bytes: bytes / 4,
            wait_timeout: WAIT_TIMEOUT,
        }
    }

    /// Maximum memory of one page.
    pub fn max_page_bytes(&self) -> usize {
        self.max_page_bytes
    }

    /// Empty reservation.
    pub fn reserve(&self) -> MemoryReservation {
        MemoryReservation { budget: self.clone(), small: None, large: None, reserve: None }
    }
}

/// Memory reserved by one page; released on drop.
pub struct MemoryReservation {
    budget: MemoryBudget,
    small: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for MemoryReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has =
            |part: &Option<OwnedSemaphorePermit>| part.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        f.debug_struct("Share")
            .field("kib", &(has(&self.small) + has(&self.large)))
            .field("reserve", &self.reserve.is_some())
            .finish()
    }
}

impl MemoryReservation {
    /// Maximum memory of one page.
    pub fn max_page_bytes(&self) -> usize {
        self.budget.max_page_bytes
    }

    /// Grows the reservation to at least this many bytes; waits up to 20 s for other pages.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<(), MemoryError> {
        if bytes > self.budget.max_page_bytes {
            return Err(MemoryError::PageTooLarge);
        }
        if self.reserve.is_some() {
            return Ok(());
        }
        let small = missing_kib(&self.small, bytes.min(SMALL_BYTES));
        if small > 0 {
            let permits = self.budget.small.clone().acquire_many_owned(small);
            add(&mut self.small, within(self.budget.wait_timeout, permits).await?);
        }
        let large = missing_kib(&self.large, bytes.saturating_sub(SMALL_BYTES));
        if large > 0 {
            if let Ok(permits) = self.budget.large.clone().try_acquire_many_owned(large) {
                add(&mut self.large, permits);
                return Ok(());
            }
            let reserve = self.budget.reserve.clone().acquire_owned();
            self.reserve = Some(within(self.budget.wait_timeout, reserve).await?);
        }
        Ok(())
    }

    /// Releases all but this many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let (small, large) = (kib(bytes.min(SMALL_BYTES)), kib(bytes.saturating_sub(SMALL_BYTES)));
        if self.reserve.is_some() && missing_kib(&self.large, bytes.saturating_sub(SMALL_BYTES)) == 0 {
            self.reserve = None;
        }
        for (part, keep) in [(&mut self.small, small), (&mut self.large, large)] {
            if let Some(permits) = part {
                let spare = permits.num_permits().saturating_sub(keep as usize);
                drop(permits.split(spare));
            }
        }
    }
}

async fn within(
    timeout: Duration,
    permits: impl Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>>,
) -> Result<OwnedSemaphorePermit, MemoryError> {
    // A closed semaphore is an error too, but these are never closed.
    tokio::time::timeout(timeout, permits).await.ok().and_then(Result::ok).ok_or(MemoryError::Exhausted)
}

fn missing_kib(part: &Option<OwnedSemaphorePermit>, bytes: usize) -> u32 {
    let has = part.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    kib(bytes).saturating_sub(u32::try_from(has).unwrap_or(u32::MAX))
}

fn add(part: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match part {
        Some(part) => part.merge(more),
        None => *part = Some(more),
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn large_pages_run_one_by_one_when_memory_is_short_and_small_ones_continue() {
        let memory = MemoryBudget { wait_timeout: Duration::from_millis(50), ..MemoryBudget::new(64 * MIB) };
        let mut shares = Vec::new();
        // 24 MiB beyond the first MiB of each page: three pages of 8 MiB, and one more on the reserve.
        for _ in 0..4 {
            let mut share = memory.reserve();
            share.grow_to(8 * MIB).await.unwrap();
            shares.push(share);
        }
        let mut fifth = memory.reserve();
        assert_eq!(fifth.grow_to(8 * MIB).await, Err(MemoryError::Exhausted), "four pages use up the budget");
        let mut small = memory.reserve();
        small.grow_to(100_000).await.unwrap();
        drop(shares);
        fifth.grow_to(8 * MIB).await.unwrap();
    }

    #[tokio::test]
    async fn growing_pages_do_not_deadlock() {
        let memory = MemoryBudget::new(64 * MIB);
        let growing = |number: usize| {
            let memory = memory.clone();
            tokio::spawn(async move {
                let mut share = memory.reserve();
                for mib in 1..=16 {
                    while share.grow_to(mib * MIB).await.is_err() {}
                    tokio::time::sleep(Duration::from_millis(number as u64)).await;
                }
            })
        };
        let all: Vec<_> = (0..40).map(growing).collect();
        for one in all {
            one.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_page_may_have_a_quarter_and_shrinks() {
        let memory = MemoryBudget::new(64 * MIB);
        let mut share = memory.reserve();
        assert_eq!(share.grow_to(16 * MIB + 1).await, Err(MemoryError::PageTooLarge));
        share.grow_to(16 * MIB).await.unwrap();
        share.shrink_to(1000);
        assert_eq!(memory.large.available_permits(), 24 * 1024);
        drop(share);
        assert_eq!(memory.small.available_permits(), 24 * 1024);
    }
}
