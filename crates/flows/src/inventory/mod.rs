//! The flow `inventory`: fetches requested URLs, and stores headers, cookies and page source.
//!
//! ```text
//! POST ─▶ url_inventory ─▶ fetch: begin → fetch → complete ─▶ records ─▶ GET
//!              ▲             │ │                       ▲
//!              └── requeue ──┘ │ fail, below the maximum of attempts
//!                              └▶ url_inventory_waiting ─▶ fetch_waiting
//!                                 while the host is unreachable
//! ```

mod accept;
mod fetch;
mod lost_workers;
mod message;
mod page;
mod wiring;

pub use accept::{AcceptError, Accepted, accept, check};
pub use fetch::InventoryStep;
pub use lost_workers::fail_lost_records;
pub use message::{SCHEMA, UrlMessage};
pub use wiring::{
    ITEM_ID, Inventory, InventorySettings, InventoryStages, stage_queues, url_inventory,
    url_inventory_waiting, waiting_queue,
};

/// Name of the flow in trails and metrics.
pub const FLOW: &str = "inventory";
