//! The store contracts on Redis: the seen URLs and the gate, shared by any number of processes.
//!
//! ```text
//! seen.rs   seen.lua      one value per URL, which vanishes when its time is over
//! gate/                   one script per call: what is stored (book.lua), who waits (line.lua), one group (lane.lua),
//!                         the calls (calls.lua), a new life (life.lua)
//!         │
//!     script.rs           scripts that the server keeps, and what it means when it does not know one
//!     link.rs             one connection for all callers; time limits; when the server is away
//! ```
//!
//! # Time
//!
//! The server's clock counts, in every script. So all processes agree, and what a worker's clock shows does not matter.
//!
//! # What a loss costs
//!
//! A server forgets the scripts that it was given whenever it starts, and a replica that takes over never had them. So
//! the first call of the gate after that is answered that its script is unknown, and begins a new life of the gate:
//! whatever is stored may be older than the last requests, and every group waits one gap from then on. The same
//! happens when the data is gone without a restart. Permits of before count on: who extends or finishes one within
//! its first lease is in flight again, or has ended then, although the server knew nothing of it.
//!
//! Seen URLs that are lost are crawled once more. Claims that are lost may be made by two. No item is in here, and
//! so none is lost.

mod fault;
mod gate;
mod link;
mod options;
mod script;
mod seen;
mod store;

pub use gate::RedisGate;
pub use options::{RedisOptions, Time};
pub use store::RedisStore;
