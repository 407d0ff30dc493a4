//! HTTP gateway: the flows as a JSON API, for programs and for the console.
//!
//! ```text
//! request ─▶ id, log, timeout ─▶ host and origin check ─▶ token ─▶ route ─▶ contracts (broker, stores, fetcher)
//!                 ▲                                                  │
//!                 └────────── response, or problem+json ◀────────────┘
//! ```
//!
//! The gateway depends on contracts only; the process that runs it injects the backends as [`Parts`].

pub mod answers;
mod auth;
mod auth_throttle;
mod coalescing;
mod crawl_rates;
mod extract;
mod health;
mod index_backlog;
mod inventory;
mod metrics;
mod middleware;
mod openapi;
mod origin;
mod partial;
mod parts;
mod problem;
mod readiness;
mod routes;
mod serve;
pub mod shape;
pub mod stored;

pub use auth::Token;
pub use inventory::{Inventory, InventoryOptions};
pub use openapi::document;
pub use origin::AllowedHosts;
pub use partial::{Switch, inventory_router, starting};
pub use parts::{CrawlDefaults, Parts, StageMeter};
pub use problem::Problem;
pub use readiness::{Need, Probe, Readiness};
pub use routes::{Options, health_router, router, starting_health_router};
pub use serve::{Access, BindError, Limits, Listening, bind};
