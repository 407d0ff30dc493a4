//! The store contracts on SQL: one implementation for SQLite in a file of ours and for PostgreSQL.
//!
//! ```text
//! seen.rs  trails.rs  frontier/      what is asked, in SQL that is written once
//!         │
//!     dialect.rs                     where the two speak differently, and nowhere else
//!         │
//!     store.rs ─ link.rs             transactions, retries, connections; down.rs: when the server is away
//! ```
//!
//! Texts are kept as they are, except that U+0000, which PostgreSQL cannot store, becomes U+FFFD.

mod dialect;
mod down;
mod fault;
mod frontier;
mod key;
mod known;
mod link;
mod migrate;
mod options;
mod rows;
mod seen;
mod store;
mod time;
mod trails;

pub use options::{Place, SqlOptions};
pub use store::SqlStore;
