//! The store contracts on SQL: one implementation for SQLite in a file of ours and for PostgreSQL.
//!
//! ```text
//! seen.rs  trails.rs  frontier/
//! inventory.rs                       what is asked, in SQL that is written once
//! pages/  gate/                      the page index and the gate, on PostgreSQL alone
//!         │
//!     dialect.rs                     where the two speak differently, and nowhere else
//!         │
//!     store.rs ─ link.rs             transactions, retries, connections
//! ```
//!
//! # What survives
//!
//! What a call did survives the end of the process, however that comes. A power cut, or the end of the operating
//! system, is another matter on SQLite, whose commits are written at once and synced together later: it may undo the
//! latest of them, in order, and so set the store back in time by some moments. That costs work and nothing else: URLs
//! are fetched again (a page is never done without its links, which were added before), claims and notes of seen
//! URLs are missing, and so may be entries of trails. What somebody asked for is synced before the call returns,
//! with everything before it: `open_crawl`, `set_state`, `reopen`, `insist`, `replay`, `drop_dead`, `alone`,
//! `forget`, `add` when there is a seed among the URLs that it adds, and the ends of attempts at inventory
//! records (`complete`, `fail`), after which their messages are acknowledged. On PostgreSQL every commit is
//! as durable as the server makes it.
//!
//! Texts are kept as they are, except that U+0000, which PostgreSQL cannot store, becomes U+FFFD.

mod clock_step;
mod dialect;
mod fault;
mod frontier;
mod gate;
mod inventory;
mod key;
mod keys;
mod known;
mod link;
mod migrate;
mod options;
mod pages;
mod patience;
mod rows;
mod seen;
mod store;
mod time;
mod trails;

pub use gate::SqlGate;
pub use options::{Place, SqlOptions};
pub use pages::SqlPages;
pub use store::SqlStore;
