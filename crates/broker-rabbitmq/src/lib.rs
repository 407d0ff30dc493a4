//! The queue contract on RabbitMQ.
//!
//! ```text
//!                         ┌────────────────────────── replay ───────────────┐
//!  publish ─▶ NAME ───────┴──▶ receive ──▶ settle ─┬─ done: acknowledged     │
//!              │ came back once                    ├─ dead ──▶ NAME.dead ────┘
//!              ▼                                   └─ retry, defer, lease lost
//!           NAME:due ──▶ receive                              │
//!              ▲                                              │
//!              └──── NAME:wait:250 … NAME:wait:4096000 ◀──────┘
//! ```
//!
//! * A contract queue is plain: durable, classic, and without arguments unless its limit is exact. What is ours stands
//!   beside it (`names.rs`).
//! * Every publish is mandatory, persistent and confirmed. A copy is confirmed before its original is acknowledged.
//! * Nothing but the server keeps anything: counts and errors are headers of the message, the dead are messages, a pause
//!   is a message in a queue, and that a message runs alone is a queue. So any number of processes see the same, and none of it
//!   can disagree.
//! * A supervisor keeps the connection up; receipts of a lost one reach nobody.

mod admin;
mod broker;
mod dead;
mod declare;
mod engine;
mod error;
mod fitting;
mod guarantees;
mod held;
mod intake;
mod lane;
mod legible;
mod limit;
mod link;
mod management;
mod marks;
mod moving;
mod names;
mod options;
mod publish;
mod publisher;
mod session;
mod settle;
mod taking;
mod wire;

pub use broker::RabbitBroker;
pub use error::ConnectError;
pub use options::Options;
