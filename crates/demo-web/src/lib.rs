//! A small deterministic web on loopback, with the truth about what a crawler must find in it.
//!
//! A [`Plan`] says what the web contains. [`Web::builder`] makes a [`Web`] of it, which knows every page and the
//! [`Truth`]: what must end up in the index, what must not and why, and what must never be asked for.
//! [`Builder::serve`] answers for it on real sockets, and the [`Log`] says who asked for what and when.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use crawlway_demo_web::{Plan, Web};
//!
//! let server = Web::builder(Plan::crash()).serve().await?;
//! let start = server.web().truth().start.clone();
//! // … crawl from `start`, then compare:
//! let found: Vec<String> = Vec::new();
//! let missing = server.web().truth().compare(found, crawlway_demo_web::Duplicates::Kept).missing;
//! # Ok(())
//! # }
//! ```
//!
//! The same plan with the same seed, naming and port is the same web to the byte. It knows nothing of the program
//! that crawls it: it is a stranger, as any web is.

mod answer;
mod draft;
mod html;
mod live;
mod log;
mod plan;
mod plans;
mod random;
mod server;
mod socket;
mod spelling;
mod text;
mod truth;
mod web;
mod words;

pub use self::answer::Answer;
pub use self::live::{Changed, Failure};
pub use self::log::{Log, Visit};
pub use self::plan::{Naming, Plan};
pub use self::server::Server;
pub use self::truth::{Differences, Duplicate, Duplicates, Indexed, Truth, Why};
pub use self::web::{Builder, Web};
