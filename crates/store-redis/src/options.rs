//! What a store is opened with.

use crawlway_clock::{ManualClock, Timestamp};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// What a store is opened with.
#[derive(Clone)]
pub struct RedisOptions {
    /// The address of the server, such as `redis://user:password@host:6379/0`.
    pub url: String,
    /// What all keys begin with, in braces: `{crawlway}:seen:…`. So all of them are in one slot of a cluster, which
    /// scripts need. Who shares a prefix shares the seen URLs and the gate.
    pub prefix: String,
    /// How long opening waits for a server that is not there yet.
    pub open_within: Duration,
    /// How long a connection may take to be made.
    pub connect_within: Duration,
    /// How long a call waits for its answer before the store counts as unavailable.
    pub answer_within: Duration,
    /// Where the time comes from.
    pub time: Time,
}

impl RedisOptions {
    /// The defaults, for a server there.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "crawlway".to_owned(),
            open_within: Duration::from_secs(30),
            connect_within: Duration::from_secs(5),
            answer_within: Duration::from_secs(5),
            time: Time::Server,
        }
    }
}

/// Never shows the address, which may hold a password.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// What the time is for a store.
#[derive(Debug, Clone, Default)]
pub enum Time {
    /// The server's clock.
    #[default]
    Server,
    /// The server's clock, slowed down, for tests that no busy machine is to be too slow for.
    Slow {
        /// Since when it is slow.
        since: Timestamp,
        /// How many times slower it is.
        times: u32,
        /// How many milliseconds are added, for tests that let time pass.
        ahead: Arc<AtomicI64>,
    },
    /// A clock that a test moves.
    Manual(Arc<ManualClock>),
}

impl Time {
    /// What scripts are told of it; see `clock.lua`.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Server => String::new(),
            Self::Slow { since, times, ahead } => {
                format!("{:+} {} {times}", ahead.load(Ordering::SeqCst), since.as_millis())
            }
            Self::Manual(clock) => clock.now().as_millis().to_string(),
        }
    }

    /// By how many milliseconds keys outlast what they say. The server lets keys vanish by its own clock, which a
    /// clock that stands still would fall behind.
    pub(crate) fn spare(&self) -> u64 {
        match self {
            Self::Server => 0,
            Self::Slow { .. } | Self::Manual(_) => 3_600_000,
        }
    }
}

/// A length of time as scripts have it: whole milliseconds, rounded up, of which a few thousand years are for ever.
pub(crate) fn millis(time: Duration) -> u64 {
    const EVER: u64 = 100_000_000_000_000;
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(EVER).min(EVER)
}
