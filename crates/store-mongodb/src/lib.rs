//! The inventory records on MongoDB, in documents that who knows their fields alone can read.
//!
//! ```text
//! records.rs      what is asked: one command for each call, decided by the server on one document
//! document.rs     a record as a document, and back
//!         │
//!     store.rs    opening, indexes, time limits; when the server is away
//! ```
//!
//! A document has the fields `_id`, `url`, `status`, `metadata`, `processing`, `additional_details`, `created_at` and
//! `updated_at`; its `_id` is an `ObjectId`, times are dates. Our own notes are in `additional_details.crawlway`. There are
//! indexes by `url`, by `created_at`, and by `status` with it. Documents of others in the same collection are shown
//! as far as they have these fields; the URL of such a one gets a document of ours beside it, unless the two have the
//! same `_id`.
//!
//! # What survives
//!
//! A write is answered when the majority of the servers has it in its journal. Reads are of what a majority has, so
//! that nothing is shown that a change of the primary could take back. The driver finds the primary and connects
//! anew by itself; a call that is not answered in time is told so, and may be repeated.

mod document;
mod fault;
mod options;
mod records;
mod store;

pub use options::MongoOptions;
pub use store::MongoStore;
