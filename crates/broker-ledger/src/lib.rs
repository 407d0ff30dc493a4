//! Brokers on top of the ledger: deliveries with leases, verdicts, dead letters and pauses, for servers that cannot keep them.
//!
//! Kafka and SQS cannot keep all state of a queue. What they lack is in a [`Ledger`](crawlway_store::Ledger), and [`LedgerHandle`] is a
//! broker handle's side of it: `session.rs` keeps the session, `routing.rs` finds the queues of a message, `dead_letters.rs` lists, replays
//! and drops dead letters.
//!
//! An engine on top of it implements [`Backend`]: how its server settles, redelivers and publishes. The rest is the same in all: [`Shared`],
//! the queues with their deliveries in flight (`local_queue.rs`), taking messages (`receive.rs`), and verdicts (`settle.rs`).

mod backend;
mod dead_letters;
mod handle;
mod local_queue;
mod receive;
mod routing;
mod session;
mod settle;
mod shared;
mod watch;

pub use backend::{Backend, Entry, State};
pub use crawlway_store::ledger::{MessageKey, Settlement};
pub use dead_letters::ReplayCopy;
pub use handle::{LedgerError, LedgerHandle};
pub use local_queue::{Deliveries, InFlight, LocalQueue};
pub use settle::{Claim, Redelivery};
pub use shared::Shared;
