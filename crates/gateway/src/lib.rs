//! HTTP gateway: the flows as a JSON API.
//!
//! ```text
//! request ─▶ id, log, timeout ─▶ host and origin check ─▶ token ─▶ route ─▶ contracts (broker, stores, fetcher)
//!                 ▲                                                  │
//!                 └────────── response, or problem+json ◀────────────┘
//! ```
//!
//! The gateway depends on contracts only; the process that runs it injects the backends as [`GatewayContext`].
//! The router serves from the first moment. A store may connect later ([`Later`]); until then its routes answer 503.

mod auth;
mod auth_throttle;
mod caller;
mod coalescing;
mod context;
mod crawl_rates;
pub mod dto;
mod extract;
mod health;
mod index_backlog;
mod inventory;
mod later;
mod metrics;
mod middleware;
mod openapi;
mod origin;
mod problem;
mod readiness;
mod requests;
mod routes;
mod serve;
pub mod service;
mod state;
pub mod stored_pages;
mod token_cache;
mod token_limits;

pub use auth::Token;
pub use caller::Caller;
pub use context::{CrawlDefaults, GatewayContext, Meters, StageMeter};
pub use inventory::{InventoryOptions, InventoryService};
pub use later::Later;
pub use openapi::document;
pub use origin::AllowedHosts;
pub use problem::Problem;
pub use readiness::{DependencySpec, Probe, Readiness};
pub use requests::{RequestOptions, RequestService, submit};
pub use routes::{
    FlowRoutes, RouterOptions, blob_routes, health_router, inventory_routes, request_routes, router,
    search_routes,
};
pub use serve::{AccessControl, BindError, ConnectionLimits, Listener, bind};
pub use state::GatewayState;
pub use token_limits::TokenLimits;
