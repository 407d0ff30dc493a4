//! The flow `inventory`: a URL is asked for, a worker stores its headers, cookies and page source.
//!
//! ```text
//! POST ─▶ url_inventory ─▶ fetch: begin → fetch → complete ─▶ records ─▶ GET
//!              ▲             │ │                       ▲
//!              └── requeue ──┘ │ fail, below the most tries
//!                              └▶ url_inventory_waiting ─▶ fetch_waiting
//!                                 while its host cannot be reached
//! ```

mod accept;
mod fetch;
mod lost;
mod message;
mod page;
mod wiring;

pub use accept::{Accepted, NotAccepted, accept, check};
pub use fetch::InventoryStep;
pub use lost::{LostError, fail_records_of_the_lost};
pub use message::{SCHEMA, UrlMessage};
pub use wiring::{Inventory, InventorySettings, items, url_inventory, url_inventory_waiting, waiting_queue};

/// The flow's name, in trails and metrics.
pub const FLOW: &str = "inventory";
