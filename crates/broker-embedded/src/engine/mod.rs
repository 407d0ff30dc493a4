//! The engine: queues on a log, without threads, timers or async, so that a test can drive it step by step.
//!
//! Three locks, always taken in this order: `log` (where the next record goes), `catalog_turn` (who changes the catalog) and `state`
//! (everything else). Nothing waits for a sync of the disk with `state` held, except where a queue's groups change. Whatever must be durable first goes through a [`Request`] to [`Engine::commit`]; everything else
//! happens at once.

mod commit;
mod copies;
mod dead;
mod keep;
mod log;
mod outage;
mod publish;
mod receive;
mod settle;
mod state;

pub(crate) use commit::{CommitError, Request};
pub(crate) use log::LARGEST_FILE;
pub(crate) use publish::Prepared;
pub(crate) use state::{State, Suspicion};

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

/// Sizes that the engine keeps to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The first segment of a run; each next one is twice as large.
    pub(crate) first_segment: u64,
    /// The largest segment, unless a single message needs more.
    pub(crate) largest_segment: u64,
    /// The largest message, headers included.
    pub(crate) largest_message: u64,
    /// What is held back for settling on a full disk.
    pub(crate) reserve: u64,
    /// A journal may grow to this, and to twice its segment, before the segment is rewritten.
    pub(crate) large_journal: u64,
}

/// The queues of one directory.
#[derive(Debug)]
pub(crate) struct Engine {
    disk: Arc<dyn Disk>,
    sizes: Sizes,
    log: Mutex<Log>,
    state: Mutex<State>,
    /// Held while the catalog is changed, so that the state need not be locked while it is written.
    catalog_turn: Mutex<()>,
    /// Why the last write failed, until one succeeds.
    outage: Mutex<Option<String>>,
}

/// A number that nobody else has.
pub(crate) fn random_number() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

impl Engine {
    /// Notices from now on when the process was suspended: no call has looked at the queue for so long.
    pub(crate) fn notice_freezes(&mut self, after: std::time::Duration, now: Timestamp) {
        let mut state = self.state.lock();
        (state.frozen_after, state.looked) = (Some(after), now);
    }

    /// Takes back deliveries whose leases have ended.
    pub(crate) fn look(&self, now: Timestamp) {
        self.state.lock().expire_leases(now);
    }

    /// An engine over what recovery has found.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        sizes: Sizes,
        state: State,
        spares: Vec<(u32, Arc<dyn DiskFile>)>,
    ) -> Self {
        // A catalog from a backup may know less than the directory does.
        let present = state.segments.keys().next_back().map_or(0, |last| last + 1);
        let next_segment = state.catalog.unused_segment.max(present);
        let log = Log::new(next_segment, sizes.first_segment, spares);
        Self {
            disk,
            sizes,
            log: Mutex::new(log),
            state: Mutex::new(state),
            catalog_turn: Mutex::default(),
            outage: Mutex::default(),
        }
    }

    pub(crate) fn largest_message(&self) -> u64 {
        self.sizes.largest_message
    }

    pub(crate) fn declare(&self, specs: &[QueueSpec]) -> Result<(), BrokerError> {
        let _turn = self.catalog_turn.lock();
        let state = self.state.lock();
        let catalog = Self::declared(&state, specs)?;
        let mut changed = catalog.queues.iter().zip(&state.queues);
        if changed.any(|(listed, queue)| listed.spec.groups != queue.spec.groups) {
            // It was seen to be empty, and has to stay so.
            return self.save(Some(state), catalog);
        }
        drop(state);
        self.save(None, catalog)
    }

    /// The catalog with these queues in it.
    fn declared(state: &State, specs: &[QueueSpec]) -> Result<Catalog, BrokerError> {
        state.check_open()?;
        let mut catalog = state.catalog.clone();
        for spec in specs {
            spec.check()?;
            match state.numbers.get(&spec.name) {
                Some(number) => {
                    let queue = &state.queues[*number as usize];
                    let occupied = queue.waiting() + u64::from(queue.in_flight) + queue.reserved > 0;
                    if queue.spec.groups != spec.groups && occupied {
                        return Err(BrokerError::Mismatch {
                            queue: spec.name.clone(),
                            difference: format!(
                                "groups is {}, asked for is {}; drain the queue before changing that",
                                queue.spec.groups, spec.groups
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

    /// Writes the catalog and applies it. The caller holds `catalog_turn`.
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
        let _turn = self.catalog_turn.lock();
        let state = self.state.lock();
        let number = state.number(name)?;
        let mut catalog = state.catalog.clone();
        drop(state);
        catalog.queues[number as usize].paused = paused;
        self.save(None, catalog)
    }

    /// How many publishes are under way in a queue.
    #[cfg(test)]
    pub(crate) fn reserved(&self, name: &QueueName) -> u64 {
        let state = self.state.lock();
        state.queues[state.numbers[name] as usize].reserved
    }

    /// What must be committed because of messages that ran out of attempts.
    pub(crate) fn take_burials(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().burials)
    }

    pub(crate) fn depth(&self, name: &QueueName, now: Timestamp) -> Result<Depth, BrokerError> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        state.expire_leases(now);
        state.promote(number, now);
        Ok(state.queues[number as usize].depth(now))
    }

    /// Nothing works from now on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for queue in &state.queues {
            queue.wake();
        }
    }

    /// What an error of the disk means to a caller.
    fn unavailable(&self, error: &io::Error) -> BrokerError {
        BrokerError::Unavailable { detail: self.explain(error) }
    }

    /// The same as text. It is told to strangers, too, so that it does not say where the queue is; the log does.
    pub(crate) fn explain(&self, error: &io::Error) -> String {
        if crate::disk::is_full(error) {
            "the disk of the queue is full; free some space and it goes on by itself".to_owned()
        } else {
            format!("the files of the queue cannot be used: {error}")
        }
    }
}
