//! Small deterministic web on loopback for tests, the demo and benchmarks, with the expected result of a crawl.
//!
//! A [`Plan`] selects the contents. [`Web::builder`] creates a [`Web`] with all pages and the ground truth ([`GroundTruth`]): which
//! URLs must be indexed, which must not and why, and which must never be requested. [`Builder::serve`] serves it on real
//! sockets with an access log ([`AccessLog`]).
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use crawlway_demo_web::{Plan, Web};
//!
//! let server = Web::builder(Plan::crash()).serve().await?;
//! let start = server.web().ground_truth().start.clone();
//! // … crawl from `start`, then compare:
//! let indexed: Vec<String> = Vec::new();
//! let missing = server.web().ground_truth().compare(indexed, crawlway_demo_web::Duplicates::Kept).missing;
//! # Ok(())
//! # }
//! ```
//!
//! The same plan, seed, naming and port give the same bytes. The crate uses no other crate of this workspace.

mod access_log;
mod draft;
mod ground_truth;
mod html;
mod overrides;
mod path;
mod plan;
mod plans;
mod random;
mod response;
mod server;
mod socket;
mod text;
mod web;
mod words;

pub use self::access_log::{AccessLog, AccessLogEntry};
pub use self::ground_truth::{Differences, Duplicate, Duplicates, ExpectedPage, GroundTruth, NotIndexed};
pub use self::overrides::{Failure, PageChange};
pub use self::plan::{Naming, Plan};
pub use self::response::PageResponse;
pub use self::server::Server;
pub use self::web::{Builder, Web};
