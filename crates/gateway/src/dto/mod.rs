//! JSON types of the API and of the command line. Times are ISO 8601 strings in UTC, such as `2026-11-15T09:30:00.250Z`.
//! Durations are numbers with their unit in the name, or strings as in the settings.

mod blob;
mod crawl;
mod dead_letter;
mod queue;
mod request;
mod search;
mod stored_page;
mod token;
mod trail;
mod url;

pub use blob::{BlobDetail, BlobList, BlobView};
pub use crawl::{
    AcceptedCrawl, Counts, CrawlList, CrawlUrls, CrawlView, Definition, DeletedCrawl, SeedFailure,
};
pub use dead_letter::{
    DeadLetterCauseView, DeadLetterMessage, DeadLetterView, DeadList, DeadListCursor, Dropped, Failure,
    Replayed,
};
pub use queue::{Binding, Limit, Paused, Purged, Queue, QueueList, QueueOrdering, UnavailableQueue};
pub use request::{AcceptedRequests, DeletedRequests, RequestEvent, RequestList, UserRequest};
pub use search::{Duplicate, Hit, RemovedPages, Results};
pub use stored_page::{PageList, StoredPage};
pub use token::{CreatedToken, NewToken, TokenList, TokenRoleView, TokenView};
pub use trail::{FrontierEntry, ItemTrail, TrailEntryView, Trails};
pub use url::{AcceptedUrl, CacheInvalidation, UrlList, UrlMetadata, UrlProcessing, UrlRecord};
