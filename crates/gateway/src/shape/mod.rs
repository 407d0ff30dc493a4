//! The shapes of JSON that the API and the command line share. Times are milliseconds since 1970 unless they are texts.

mod crawl;
mod dead;
mod page;
mod queue;
mod trail;

pub use crawl::{Counts, CrawlView, Definition};
pub use dead::{DeadList, Failure, Letter, LetterMessage, NextDead};
pub use page::{Duplicate, Hit, Results};
pub use queue::{Binding, Limit, Queue, QueueList};
pub use trail::{FrontierEntry, ItemTrail, TrailStep, Trails};
