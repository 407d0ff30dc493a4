//! The inventory records on MongoDB, in documents that other programs can read.
//!
//! ```text
//! records.rs      the contract: one atomic command per call, on one document
//! document.rs     conversion between records and documents
//!         │
//!     store.rs    opening, indexes, timeouts, outages
//! ```
//!
//! A document has the fields `_id`, `url`, `status`, `metadata`, `processing`, `additional_details`, `created_at` and
//! `updated_at`; its `_id` is an `ObjectId`, times are dates. The bookkeeping is in `additional_details.crawlway`. There are
//! indexes on `url`, on `created_at`, and on `status` with `created_at`. Documents of other programs in the same collection
//! are shown as far as they have these fields. The URL of such a document gets a document of ours beside it, unless the two
//! have the same `_id`.
//!
//! # Durability
//!
//! A write is confirmed when the majority of the servers has it in its journal. Reads use the read concern *majority*, so
//! that nothing is shown that a failover could roll back. The driver finds the primary and reconnects by itself. A call
//! that times out fails, and may be repeated.

mod document;
mod fault;
mod options;
mod records;
mod store;

pub use options::MongoOptions;
pub use store::MongoStore;
