//! One fetcher for all flows: it never hammers a host, never reaches where it must not, and survives every server.
//!
//! ```text
//! request ─▶ robots.txt ─▶ gate (turn) ─▶ connection: kept, or looked up, guarded, dialled ─▶ answer, bounded
//!    ▲                                                                                           │
//!    └──────────────────────────────── redirect: everything again ◀──────────────────────────────┘
//! ```

mod blocked;
mod body;
mod budget;
mod client;
mod connect;
mod error;
mod exchange;
mod guard;
mod kept;
mod limits;
mod memory;
mod meter;
mod pool;
mod request;
mod request_log;
pub mod resolve;
pub mod robots;
mod robots_cache;
mod siblings;
pub mod sitemap;
mod sitemaps;
mod tally;
mod tls;
mod turn;
mod unreachable;
mod waits;
mod walk;

pub use client::{Fetcher, Setup};
pub use error::{Code, FetchError};
pub use guard::{Allowed, AllowedError, Guard};
pub use limits::Limits;
pub use memory::{Memory, NoShare, Share};
pub use pool::Keep;
pub use request::{Fetched, Hop, Identity, IdentityError, Request, Timing, USER_AGENT, Validators, Waiting};
pub use sitemaps::{
    SitemapCaps, SitemapFailure, SitemapFile, SitemapPage, SitemapRead, SitemapWalk, Sitemaps,
};
pub use tls::{RootError, check_roots};
pub use waits::{HostWait, WaitCause};
