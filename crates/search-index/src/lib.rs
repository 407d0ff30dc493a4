//! The embedded full-text search: the page index in a directory, owned by one process.
//!
//! ```text
//! <directory>/lock          held by the one process that has it open
//! <directory>/index.json    which version the index has, and in which folder it is
//! <directory>/tombstones    when URLs were removed
//! <directory>/pages-1/      the index itself
//! ```
//!
//! Everything needed to build it anew is stored in it, so that an index of an older version is rebuilt when it is
//! opened.

mod compile;
mod error;
mod index;
mod known;
mod merge;
mod open;
mod rank;
mod schema;
mod search;
mod tokenize;
mod tombstones;
mod urls;
mod writer;

pub use error::OpenError;
pub use index::{Options, TantivyIndex};
