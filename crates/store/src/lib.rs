//! The store contracts: small traits in the language of the flows, which every backend honours.
//!
//! Each contract has a conformance suite (`crawlway-store-conformance`) that holds every backend to it. This crate
//! speaks of items, URLs and pages, and knows nothing of how they are fetched or what they say.

mod error;
mod filter;
pub mod frontier;
pub mod gate;
pub mod inventory;
pub mod outage;
pub mod pages;
pub mod seen;
pub mod trails;

pub use crawlway_clock::{Clock, ManualClock, Timestamp};
pub use crawlway_suspects as suspects;
pub use error::StoreError;
pub use filter::Filter;
pub use frontier::{CrawlId, Frontier, FrontierPolicy};
pub use gate::{Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Turn, Why};
pub use inventory::UrlRecords;
pub use pages::{IndexedPage, PageIndex};
pub use seen::SeenUrls;
pub use trails::{End, TrailEntry, Trails};
