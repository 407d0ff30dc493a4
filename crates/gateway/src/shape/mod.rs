//! The shapes of JSON that the API and the command line share. Times are milliseconds since 1970 unless they are texts.

mod crawl;
mod dead;
mod page;
mod queue;
mod stored;
mod trail;
mod url;

pub use crawl::{Accepted, Counts, CrawlView, Definition, SeedFailure};
pub use dead::{DeadList, Dropped, Failure, Letter, LetterMessage, NextDead, Replayed};
pub use page::{Duplicate, Hit, Results};
pub use queue::{Binding, Limit, Paused, Purged, Queue, QueueList};
pub use stored::{PageList, StoredPage};
pub use trail::{FrontierEntry, ItemTrail, TrailStep, Trails};
pub use url::{AcceptedUrl, Forgotten, UrlList, UrlMetadata, UrlProcessing, UrlRecord};
