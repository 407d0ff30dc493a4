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
mod frontier_queue;
mod index;
mod kept_html;
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
pub use definition::{Definition, DefinitionError, DefinitionState};
pub use export::{Export, ExportError};
pub use frontier_queue::QueuesWithFrontier;
pub use index::IndexStep;
pub use kept_html::HtmlReplay;
pub use reindex::reindex;
pub use scope::Traps;
pub use seeds::{FailedSeed, failed_seeds};
pub use sitemaps::add_sitemaps;
pub use source::FRONTIER;
pub use start::{CrawlRequest, StartedCrawl, migrate_crawl_names, start_crawl};
pub use wiring::{CrawlResources, PageSink, Search, SearchSettings, crawler_queue, stage_queues};

/// Name of the flow in trails and metrics.
pub const FLOW: &str = "search";
