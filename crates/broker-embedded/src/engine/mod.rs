//! Storage engine: queues on a write-ahead log, without threads, timers or async, so that tests can drive it step by step.
//!
//! Lock order: `log` (append position), `catalog_lock` (changes of the catalog), `state` (everything else). `state` is
//! never held during a disk sync, except when the ordering of a queue changes. Writes that must be durable first go
//! through a [`Request`] to [`Engine::commit`]; everything else is applied immediately.

mod commit;
mod copies;
mod dead;
mod housekeeping;
mod log;
mod outage;
mod publish;
mod receive;
mod settle;
mod state;

pub(crate) use commit::{CommitError, Request};
pub(crate) use log::MAX_FILE_SIZE;
pub(crate) use state::{LossHistory, State};

use crate::{
    catalog::{Catalog, CatalogQueue},
    disk::{Disk, DiskFile},
    index::Queue,
};
use crawlway_broker::{BrokerError, Depth, QueueName, QueueSpec, Timestamp};
use log::Log;
use parking_lot::{Mutex, MutexGuard};
use std::{
    hash::{BuildHasher, Hasher},
    io,
    sync::Arc,
};

/// Size limits of the engine, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// First segment of a run; each further one is twice as large.
    pub(crate) first_segment: u64,
    /// Maximum size of a segment, unless one message needs more.
    pub(crate) max_segment: u64,
    /// Maximum size of a message, headers included.
    pub(crate) max_message: u64,
    /// Disk space reserve for settling on a full disk.
    pub(crate) reserve: u64,
    /// A segment is rewritten when its journal exceeds this size and twice the segment's size.
    pub(crate) journal_threshold: u64,
}

/// Storage engine of one queue directory.
#[derive(Debug)]
pub(crate) struct Engine {
    disk: Arc<dyn Disk>,
    sizes: Sizes,
    log: Mutex<Log>,
    state: Mutex<State>,
    /// Serialises changes of the catalog, so that the state is not locked while it is written.
    catalog_lock: Mutex<()>,
    /// Error of the last write, until one succeeds.
    outage: Mutex<Option<String>>,
}

/// A random number.
pub(crate) fn random_u64() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl Engine {
    /// Enables detection of process suspensions: this long without a lease check.
    pub(crate) fn detect_suspensions(&mut self, after: std::time::Duration, now: Timestamp) {
        let mut state = self.state.lock();
        (state.suspension_threshold, state.last_lease_check) = (Some(after), now);
    }

    /// Ends deliveries with expired leases.
    pub(crate) fn expire_leases(&self, now: Timestamp) {
        self.state.lock().expire_leases(now);
    }

    /// An engine with recovered state.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        sizes: Sizes,
        state: State,
        spares: Vec<(u32, Arc<dyn DiskFile>)>,
    ) -> Self {
        // A catalog restored from a backup may be older than the segments.
        let present = state.segments.keys().next_back().map_or(0, |last| last + 1);
        let next_segment = state.catalog.unused_segment.max(present);
        let log = Log::new(next_segment, sizes.first_segment, spares);
        Self {
            disk,
            sizes,
            log: Mutex::new(log),
            state: Mutex::new(state),
            catalog_lock: Mutex::default(),
            outage: Mutex::default(),
        }
    }

    pub(crate) fn max_message(&self) -> u64 {
        self.sizes.max_message
    }

    pub(crate) fn declare(&self, specs: &[QueueSpec]) -> Result<(), BrokerError> {
        let _guard = self.catalog_lock.lock();
        let state = self.state.lock();
        let catalog = Self::declared(&state, specs)?;
        let mut changed = catalog.queues.iter().zip(&state.queues);
        if changed.any(|(listed, queue)| listed.spec.ordering != queue.spec.ordering) {
            // The queue is empty and must stay so until the catalog is saved.
            return self.save(Some(state), catalog);
        }
        drop(state);
        self.save(None, catalog)
    }

    /// The current catalog with these queues added or changed.
    fn declared(state: &State, specs: &[QueueSpec]) -> Result<Catalog, BrokerError> {
        state.check_open()?;
        let mut catalog = state.catalog.clone();
        for spec in specs {
            spec.check()?;
            match state.numbers.get(&spec.name) {
                Some(number) => {
                    let queue = &state.queues[*number as usize];
                    let occupied = queue.pending() + u64::from(queue.in_flight) + queue.reserved > 0;
                    if queue.spec.ordering != spec.ordering && occupied {
                        return Err(BrokerError::Mismatch {
                            queue: spec.name.clone(),
                            difference: format!(
                                "its ordering is {}, {} was requested; drain the queue before changing that",
                                queue.spec.ordering.name(),
                                spec.ordering.name()
                            ),
                        });
                    }
                    catalog.queues[*number as usize].spec = spec.clone();
                }
                None => match catalog.queues.iter_mut().find(|queue| queue.spec.name == spec.name) {
                    Some(declared_twice) => declared_twice.spec = spec.clone(),
                    None => {
                        let number =
                            u16::try_from(catalog.queues.len()).map_err(|_| BrokerError::InvalidSpec {
                                queue: spec.name.clone(),
                                problem: "there are 65536 queues already".into(),
                            })?;
                        catalog.queues.push(CatalogQueue { number, paused: false, spec: spec.clone() });
                    }
                },
            }
        }
        Ok(catalog)
    }

    /// Saves the catalog and applies it. The caller holds `catalog_lock`.
    fn save(&self, state: Option<MutexGuard<'_, State>>, catalog: Catalog) -> Result<(), BrokerError> {
        let current = |state: &State| state.catalog == catalog;
        if state.as_deref().map_or_else(|| current(&self.state.lock()), current) {
            return Ok(());
        }
        catalog.save(&*self.disk).map_err(|error| self.unavailable(&error))?;
        let mut state = state.unwrap_or_else(|| self.state.lock());
        for (number, listed) in catalog.queues.iter().enumerate() {
            match state.queues.get_mut(number) {
                Some(queue) => {
                    queue.spec = listed.spec.clone();
                    queue.paused = listed.paused;
                    queue.wake();
                }
                None => {
                    state.numbers.insert(listed.spec.name.clone(), listed.number);
                    state.queues.push(Queue::new(listed.spec.clone(), listed.paused));
                }
            }
        }
        state.catalog = catalog;
        Ok(())
    }

    pub(crate) fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        let state = self.state.lock();
        state.check_open()?;
        let mut specs: Vec<QueueSpec> = state.queues.iter().map(|queue| queue.spec.clone()).collect();
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(specs)
    }

    pub(crate) fn set_paused(&self, name: &QueueName, paused: bool) -> Result<(), BrokerError> {
        let _guard = self.catalog_lock.lock();
        let state = self.state.lock();
        let number = state.number(name)?;
        let mut catalog = state.catalog.clone();
        drop(state);
        catalog.queues[number as usize].paused = paused;
        self.save(None, catalog)
    }

    /// Number of publishes being committed.
    #[cfg(test)]
    pub(crate) fn reserved(&self, name: &QueueName) -> u64 {
        let state = self.state.lock();
        state.queues[state.numbers[name] as usize].reserved
    }

    /// Dead letters to commit, of messages that crashed their workers too often.
    pub(crate) fn take_dead_letter_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().dead_letter_requests)
    }

    pub(crate) fn depth(&self, name: &QueueName, now: Timestamp) -> Result<Depth, BrokerError> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        state.expire_leases(now);
        state.promote(number, now);
        Ok(state.queues[number as usize].depth(now))
    }

    /// Fails all further calls.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for queue in &state.queues {
            queue.wake();
        }
    }

    /// Converts a disk error for the caller.
    fn unavailable(&self, error: &io::Error) -> BrokerError {
        BrokerError::Unavailable { detail: self.explain(error) }
    }

    /// Error text without the path, since it reaches remote clients; the log has the path.
    pub(crate) fn explain(&self, error: &io::Error) -> String {
        if crate::disk::is_full(error) {
            "the disk of the queue is full; free some space, and writes resume by themselves".to_owned()
        } else {
            format!("the files of the queue cannot be used: {error}")
        }
    }
}
