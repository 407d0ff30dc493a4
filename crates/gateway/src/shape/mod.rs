//! The shapes of JSON that the API and the command line share. Times are texts of ISO 8601 in UTC, such as
//! `2026-11-15T09:30:00.250Z`; lengths of time are numbers with their unit in the name, or texts as in the settings.

mod crawl;
mod dead;
mod page;
mod queue;
mod stored;
mod trail;
mod url;

pub use crawl::{Accepted, Counts, CrawlList, CrawlUrls, CrawlView, Definition, DeletedCrawl, SeedFailure};
pub use dead::{Cause, DeadList, Dropped, Failure, Letter, LetterMessage, NextDead, Replayed};
pub use page::{Duplicate, Hit, RemovedPages, Results};
pub use queue::{Binding, Limit, Paused, Purged, Queue, QueueList};
pub use stored::{PageList, StoredPage};
pub use trail::{FrontierEntry, ItemTrail, TrailStep, Trails};
pub use url::{AcceptedUrl, Forgotten, UrlList, UrlMetadata, UrlProcessing, UrlRecord};
