//! The gateway: the flows over HTTP, for programs and for the console.
//!
//! ```text
//! request ─▶ id, log, time limit ─▶ host and origin ─▶ token ─▶ route ─▶ contracts (broker, stores, fetcher)
//!                    ▲                                            │
//!                    └────────── answer, or problem+json ◀────────┘
//! ```
//!
//! It knows contracts and names no product: what it works on is handed to it as [`Parts`].

mod alone;
pub mod answers;
mod auth;
mod callers;
mod extract;
mod health;
mod indexing;
mod inventory;
mod metrics;
mod openapi;
mod parts;
mod probe;
mod problem;
mod rates;
mod readiness;
mod requests;
mod routes;
mod serve;
pub mod shape;
mod starting;
pub mod stored;
mod wrong_tokens;

pub use alone::inventory_router;
pub use auth::Token;
pub use callers::AllowedHosts;
pub use inventory::{Inventory, InventoryOptions};
pub use openapi::document;
pub use parts::{CrawlDefaults, Parts, StageMeter};
pub use problem::Problem;
pub use readiness::{Need, Probe, Readiness};
pub use routes::{Options, health_router, router, starting_health_router};
pub use serve::{Access, BindError, Limits, Listening, bind};
pub use starting::{Switch, starting};
