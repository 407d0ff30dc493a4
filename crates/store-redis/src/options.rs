//! Options of the store.

use crawlway_clock::{ManualClock, Timestamp};
use crawlway_tls::ClientTls;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Options of [`RedisStore`](crate::RedisStore).
#[derive(Clone)]
pub struct RedisOptions {
    /// URL of the server, such as `redis://user:password@host:6379/0`; with TLS `rediss://`.
    pub url: String,
    /// CA and client certificate of a connection with TLS.
    pub tls: ClientTls,
    /// Prefix of all keys, in braces: `{crawlway}:seen:…`. So all of them are in one hash slot of a cluster, which
    /// scripts require. Processes with the same prefix share the seen URLs and the rate limiter.
    pub prefix: String,
    /// How long opening waits for an unavailable server.
    pub open_timeout: Duration,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of a call.
    pub call_timeout: Duration,
    /// The clock.
    pub clock: ClockSource,
}

impl RedisOptions {
    /// Default options for this server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: ClientTls::default(),
            prefix: "crawlway".to_owned(),
            open_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(5),
            clock: ClockSource::Server,
        }
    }
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Clock of a store.
#[derive(Debug, Clone, Default)]
pub enum ClockSource {
    /// The server's clock.
    #[default]
    Server,
    /// The server's clock, slowed down, so that tests pass on a busy machine.
    Slow {
        /// Start of the slow-down.
        since: Timestamp,
        /// Factor of the slow-down.
        factor: u32,
        /// Offset in milliseconds, for tests that advance the clock.
        offset_ms: Arc<AtomicI64>,
    },
    /// A manual clock, for tests.
    Manual(Arc<ManualClock>),
}

impl ClockSource {
    /// Time of a test's clock. The server of a test runs on the same machine.
    pub(crate) fn test_now(&self) -> Option<Timestamp> {
        match self {
            Self::Server => None,
            Self::Slow { since, factor, offset_ms } => {
                let ran = Timestamp::now().since(*since).as_millis() as u64 / u64::from(*factor);
                let now = since.as_millis() + ran;
                Some(Timestamp::from_millis(now.saturating_add_signed(offset_ms.load(Ordering::SeqCst))))
            }
            Self::Manual(clock) => Some(clock.now()),
        }
    }

    /// The clock as an argument of scripts; see `clock.lua`.
    pub(crate) fn argument(&self) -> String {
        match self {
            Self::Server => String::new(),
            Self::Slow { since, factor, offset_ms } => {
                format!("{:+} {} {factor}", offset_ms.load(Ordering::SeqCst), since.as_millis())
            }
            Self::Manual(clock) => clock.now().as_millis().to_string(),
        }
    }

    /// Milliseconds added to the TTL of keys. The server expires keys by its own clock, which runs ahead of a test clock.
    pub(crate) fn ttl_margin(&self) -> u64 {
        match self {
            Self::Server => 0,
            Self::Slow { .. } | Self::Manual(_) => 3_600_000,
        }
    }
}

/// Duration as an argument of scripts: milliseconds, rounded up, capped at a few thousand years.
pub(crate) fn millis(time: Duration) -> u64 {
    const MAX: u64 = 100_000_000_000_000;
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(MAX).min(MAX)
}
