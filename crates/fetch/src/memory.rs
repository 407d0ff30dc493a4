//! The memory that pages may take between the first byte of an answer and the publish, for all of them together.
//!
//! ```text
//! budget ┬ 3/8 the first MiB of each page, so that usual pages go on whatever large ones do
//!        ├ 3/8 what large pages have beyond that
//!        └ 1/4 for one page at a time that finds nothing left there: it gets all that a page may have, and therefore ends
//! ```
//!
//! A page that has the last part waits for no other, so that pages which wait for more than they have are let through
//! one by one.

use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What every page gets before it competes with other large ones.
const FIRST: usize = 1 << 20;
/// How long a page waits for memory before its item is put off.
const PATIENCE: Duration = Duration::from_secs(20);

/// The memory of all pages together. Clones share it.
#[derive(Clone)]
pub struct Memory {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    last: Arc<Semaphore>,
    page_most: usize,
    patience: Duration,
}

/// Why a page cannot have more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoShare {
    /// One page may not have so much.
    TooMuch,
    /// Other pages have it all.
    UsedUp,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("page_most", &self.page_most).finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(512 << 20)
    }
}

impl Memory {
    /// So many bytes, 8 MiB at least.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.max(8 << 20);
        let part = |eighths: usize| Arc::new(Semaphore::new(kib(bytes / 8 * eighths) as usize));
        Self {
            small: part(3),
            large: part(3),
            last: Arc::new(Semaphore::new(1)),
            page_most: bytes / 4,
            patience: PATIENCE,
        }
    }

    /// The most that one page may have.
    pub fn page_most(&self) -> usize {
        self.page_most
    }

    /// A share without anything in it.
    pub fn share(&self) -> Share {
        Share { memory: self.clone(), small: None, large: None, last: None }
    }
}

/// What one page has of the budget. Given back when it is dropped.
pub struct Share {
    memory: Memory,
    small: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    last: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has =
            |part: &Option<OwnedSemaphorePermit>| part.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        f.debug_struct("Share")
            .field("kib", &(has(&self.small) + has(&self.large)))
            .field("last", &self.last.is_some())
            .finish()
    }
}

impl Share {
    /// The most that it may be.
    pub fn page_most(&self) -> usize {
        self.memory.page_most
    }

    /// Has it be at least so many bytes, which may take a while.
    pub async fn cover(&mut self, bytes: usize) -> Result<(), NoShare> {
        if bytes > self.memory.page_most {
            return Err(NoShare::TooMuch);
        }
        if self.last.is_some() {
            return Ok(());
        }
        let first = lacking(&self.small, bytes.min(FIRST));
        if first > 0 {
            let more = self.memory.small.clone().acquire_many_owned(first);
            add(&mut self.small, patiently(more, self.memory.patience).await?);
        }
        let beyond = lacking(&self.large, bytes.saturating_sub(FIRST));
        if beyond > 0 {
            if let Ok(more) = self.memory.large.clone().try_acquire_many_owned(beyond) {
                add(&mut self.large, more);
                return Ok(());
            }
            self.last =
                Some(patiently(self.memory.last.clone().acquire_owned(), self.memory.patience).await?);
        }
        Ok(())
    }

    /// Gives back all but so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let (small, large) = (kib(bytes.min(FIRST)), kib(bytes.saturating_sub(FIRST)));
        if self.last.is_some() && lacking(&self.large, bytes.saturating_sub(FIRST)) == 0 {
            self.last = None;
        }
        for (part, keep) in [(&mut self.small, small), (&mut self.large, large)] {
            if let Some(permits) = part {
                let spare = permits.num_permits().saturating_sub(keep as usize);
                drop(permits.split(spare));
            }
        }
    }
}

async fn patiently(
    more: impl Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>>,
    patience: Duration,
) -> Result<OwnedSemaphorePermit, NoShare> {
    // The semaphores are never closed.
    tokio::time::timeout(patience, more).await.map_err(|_| NoShare::UsedUp)?.map_err(|_| NoShare::UsedUp)
}

fn lacking(part: &Option<OwnedSemaphorePermit>, bytes: usize) -> u32 {
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
    async fn large_pages_go_one_by_one_when_memory_is_short_and_usual_ones_go_on() {
        let memory = Memory { patience: Duration::from_millis(50), ..Memory::new(64 * MIB) };
        let mut shares = Vec::new();
        // 24 MiB for what is beyond the first MiB: three pages of 8 MiB, and one more on the last part.
        for _ in 0..4 {
            let mut share = memory.share();
            share.cover(8 * MIB).await.unwrap();
            shares.push(share);
        }
        let mut fifth = memory.share();
        assert_eq!(fifth.cover(8 * MIB).await, Err(NoShare::UsedUp), "four have it all");
        let mut usual = memory.share();
        usual.cover(100_000).await.unwrap();
        drop(shares);
        fifth.cover(8 * MIB).await.unwrap();
    }

    #[tokio::test]
    async fn who_has_the_last_part_never_waits_and_others_follow() {
        let memory = Memory::new(64 * MIB);
        let growing = |number: usize| {
            let memory = memory.clone();
            tokio::spawn(async move {
                let mut share = memory.share();
                for mib in 1..=16 {
                    while share.cover(mib * MIB).await.is_err() {}
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
    async fn a_page_may_have_a_quarter_and_gives_back_what_it_no_longer_needs() {
        let memory = Memory::new(64 * MIB);
        let mut share = memory.share();
        assert_eq!(share.cover(16 * MIB + 1).await, Err(NoShare::TooMuch));
        share.cover(16 * MIB).await.unwrap();
        share.shrink(1000);
        assert_eq!(memory.large.available_permits(), 24 * 1024);
        drop(share);
        assert_eq!(memory.small.available_permits(), 24 * 1024);
    }
}
