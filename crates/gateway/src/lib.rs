//! HTTP gateway: the flows as a JSON API.
//!
//! ```text
//! request ─▶ id, log, timeout ─▶ host and origin check ─▶ token ─▶ route ─▶ contracts (broker, stores, fetcher)
//!                 ▲                                                  │
//!                 └────────── response, or problem+json ◀────────────┘
//! ```
//!
//! The gateway depends on contracts only; the process that runs it injects the backends as [`GatewayContext`].

mod auth;
mod auth_throttle;
mod coalescing;
mod context;
mod crawl_rates;
pub mod dto;
mod extract;
mod health;
mod index_backlog;
mod inventory;
mod metrics;
mod middleware;
mod openapi;
mod origin;
mod partial;
mod problem;
mod readiness;
mod routes;
mod serve;
pub mod service;
pub mod stored_pages;

pub use auth::Token;
pub use context::{CrawlDefaults, GatewayContext, StageMeter};
pub use inventory::{InventoryOptions, InventoryService};
pub use openapi::document;
pub use origin::AllowedHosts;
pub use partial::{RouterSwitch, inventory_router, starting_router};
pub use problem::Problem;
pub use readiness::{DependencySpec, Probe, Readiness};
pub use routes::{RouterOptions, health_router, router, starting_health_router};
pub use serve::{AccessControl, BindError, ConnectionLimits, Listener, bind};
