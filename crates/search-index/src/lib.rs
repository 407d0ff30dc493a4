//! Embedded full-text search: the page index in a directory, owned by one process.
//!
//! ```text
//! <directory>/lock          lock of the process that has it open
//! <directory>/index.json    version of the index and number of its folder
//! <directory>/tombstones    removed URLs with the time of their removal
//! <directory>/pages-1/      the Tantivy index
//! ```
//!
//! The index stores whole pages, so that one of an older version is rebuilt from itself on opening.

mod bloom;
mod error;
mod index;
mod merge;
mod open;
mod query;
mod rank;
mod schema;
mod search;
mod tokenize;
mod tombstones;
mod urls;
mod writer;

pub use error::OpenError;
pub use index::{IndexOptions, TantivyIndex};
