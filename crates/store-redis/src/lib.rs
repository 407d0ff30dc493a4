//! The store contracts on Redis: the seen-URL store, the rate limiter, the ledger, the requests of users and the access tokens,
//! shared by any number of processes.
//!
//! ```text
//! seen.rs   seen.lua      one value per URL, with a TTL
//! rate_limiter/           states of groups, loaded and swapped by one script (groups.lua); the previous version (previous.lua)
//! ledger/                 one script per call: stored state (state.lua), commands (commands.lua)
//! requests/               commands and scripts of one key each (commands.lua)
//! tokens.rs tokens.lua    three hashes
//!         │
//!     script.rs           cached scripts, and what it means when the server does not know one
//!     link.rs             one connection for all callers; timeouts; outages
//! ```
//!
//! # Time
//!
//! Every script uses the server's clock, so that all processes agree, whatever their own clocks show.
//!
//! # Data loss
//!
//! A server forgets its cached scripts whenever it starts, and a replica that takes over never had them. So the first call
//! of the rate limiter after that finds its script unknown, and begins a new epoch: the data may be older than the last
//! requests, and every group waits one minimum delay from then on. The same happens when the data is deleted without a
//! restart. Permits of an earlier epoch stay valid within their first lease: extending or finishing one counts although
//! the server has lost it.
//!
//! URLs whose seen marks are lost are crawled once more. A lost claim may be made by a second worker. A ledger that is lost
//! takes its dead letters with it, but no message that is not dead; processes open new sessions.

mod connection;
mod fault;
mod ledger;
mod options;
mod rate_limiter;
mod requests;
mod script;
mod seen;
mod store;
mod tokens;

pub use ledger::RedisLedger;
pub use options::{ClockSource, RedisOptions};
pub use rate_limiter::{RedisGroups, RedisRateLimiter};
pub use requests::RedisRequests;
pub use store::RedisStore;
pub use tokens::RedisTokens;
