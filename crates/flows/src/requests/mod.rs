//! The flow `requests`: a user requests a URL, a worker answers, and the gateway keeps the state per user.
//!
//! ```text
//! POST ─▶ store: pending, outbox ─▶ crawl-requests ─▶ fetch ─▶ crawl-responses ─▶ responses ─▶ store: completed, failed
//!              │        ▲                                                                       │
//!              └ upkeep ┘ publishes again what was not confirmed, fails what has no answer       └▶ change feed ─▶ SSE
//! ```
//!
//! Names of queues and headers, and the bodies, are a public contract: another program may be the gateway or the worker.

mod dead_letters;
mod fetch;
mod message;
mod responses;
mod scraped;
mod submit;
mod upkeep;
mod wiring;

pub use dead_letters::answer_dead_letters;
pub use fetch::FetchStep;
pub use message::{MAX_RESPONSE_BYTES, REQUEST_SCHEMA, RESPONSE_SCHEMA};
pub use submit::{MAX_IDEMPOTENCY_KEY_BYTES, SubmitError, SubmitStep, Submitted, Submitter};
pub use upkeep::keep_up;
pub use wiring::{
    ITEM_ID, RequestResources, RequestSettings, Requests, crawl_requests, crawl_responses, response_queue,
    stage_queues,
};

/// Name of the flow in trails and metrics.
pub const FLOW: &str = "requests";
