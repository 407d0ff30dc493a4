//! The store contracts on SQL: one implementation for SQLite and PostgreSQL.
//!
//! ```text
//! seen/  trails.rs  tokens.rs  frontier/
//! inventory.rs  ledger/  runs/       the contracts, in SQL that is written once
//! pages/  rate_limiter/              page index and rate limiter, PostgreSQL only
//!         │
//!     dialect.rs                     the differences between the two dialects
//!         │
//!     store.rs ─ link.rs             transactions, retries, connections
//! ```
//!
//! # Durability
//!
//! A call that returned survives a crash of the process. On PostgreSQL every commit is as durable as the server makes it.
//! On SQLite commits are written to the write-ahead log at once and synced together later, so a power loss may undo the
//! latest ones, in order. Lost commits only cost repeated work: URLs are fetched again (a page's links are added before
//! the page is settled), and claims, marks of seen URLs and trail entries may be missing.
//!
//! These calls sync before they return, with everything committed before them: `open_crawl`, `set_state`, `update_settings`,
//! `rename_crawl`, `delete_crawl`, `reopen`, `recrawl_ignoring_canonical`, `replay`, `drop_dead_letters`, `mark_solo`, `forget`, `add` of new seeds, and the
//! ends of attempts at inventory records (`complete`, `fail`), whose messages are acknowledged next. Of the ledger: everything
//! about dead letters, pauses and bindings. Of the requests: `add`, `apply`, `delete` and `delete_all`. Of the tokens: `add` and `revoke`. Of the runs:
//! `start`, `add_jobs`, `seal`, `settle`, `finalise` and `abort`.
//!
//! Texts are stored unchanged, except that U+0000, which PostgreSQL cannot store, becomes U+FFFD.

mod clock_step;
mod connection;
mod dialect;
mod fault;
mod frontier;
mod inventory;
mod key;
mod key_cache;
mod keys;
mod lease_grace;
mod ledger;
mod migrate;
mod options;
#[cfg(feature = "postgresql")]
mod pages;
#[cfg(feature = "postgresql")]
mod rate_limiter;
mod requests;
mod rows;
mod runs;
mod seen;
mod store;
mod time;
mod tokens;
mod trails;

pub use ledger::SqlLedger;
pub use options::{Database, SqlOptions};
#[cfg(feature = "postgresql")]
pub use pages::SqlPageIndex;
#[cfg(feature = "postgresql")]
pub use rate_limiter::{SqlGroups, SqlRateLimiter};
pub use requests::SqlRequests;
pub use store::SqlStore;
