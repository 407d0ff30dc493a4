//! The flow `search`: crawl pages, publish each to a queue, index them.
//!
//! ```text
//! seeds ─▶ frontier ─▶ crawl ─▶ crawler_queue ─▶ index ─▶ page index ─▶ search
//!             ▲          │  claim → fetch → publish → links and seen → settle
//!             └─ links ──┘
//! ```

mod crawl;
mod definition;
mod export;
mod index;
pub mod message;
mod reindex;
mod rescan;
mod scope;
mod seeds;
mod shown;
mod sitemaps;
mod source;
mod start;
mod wiring;

pub use crawl::{CrawlOptions, CrawlStep};
pub use definition::{Definition, DefinitionError, TermsState};
pub use export::{Export, ExportError};
pub use index::IndexStep;
pub use reindex::reindex;
pub use scope::Traps;
pub use seeds::{FailedSeed, failed_seeds};
pub use shown::WithFrontier;
pub use sitemaps::add_sitemaps;
pub use source::FRONTIER;
pub use start::{Asked, Started, begin, name_crawls};
pub use wiring::{PagesInto, Search, SearchSettings, Stages, Stores, crawler_queue, items};

/// The flow's name, in trails and metrics.
pub const FLOW: &str = "search";
