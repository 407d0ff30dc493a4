//! The flow `search`: crawls pages, publishes them to a queue, and indexes them.
//!
//! ```text
//! seeds ─▶ frontier ─▶ crawl ─▶ crawler_queue ─▶ index ─▶ page index ─▶ search
//!             ▲          │  claim → fetch → parse → publish → store links → mark seen → settle
//!             └─ links ──┘
//! ```

mod crawl;
mod definition;
mod export;
mod frontier_broker;
mod index;
pub mod message;
mod reindex;
mod rescan;
mod scope;
mod seeds;
mod sitemaps;
mod source;
mod start;
mod wiring;

pub use crawl::{CrawlOptions, CrawlStep};
pub use definition::{Definition, DefinitionError, TermsState};
pub use export::{Export, ExportError};
pub use frontier_broker::WithFrontier;
pub use index::IndexStep;
pub use reindex::reindex;
pub use scope::Traps;
pub use seeds::{FailedSeed, failed_seeds};
pub use sitemaps::add_sitemaps;
pub use source::FRONTIER;
pub use start::{Asked, Started, begin, name_crawls};
pub use wiring::{PagesInto, Search, SearchSettings, Stages, Stores, crawler_queue, items};

/// Name of the flow in trails and metrics.
pub const FLOW: &str = "search";
