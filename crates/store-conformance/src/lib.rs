//! The conformance suites of the store contracts: for each contract the one list of cases that every backend passes.
//!
//! A backend implements [`Backend`] and [`Harness`] for a type of its tests and names the suites it passes, such as
//! `crawlway_store_conformance::frontier!(SqliteHarness::new())`. That becomes one test per case, so that none can be
//! forgotten. Each suite is a module with its table of cases, [`frontier::CASES`] for instance.

#[macro_use]
mod suite;

pub mod finding;
pub mod frontier;
pub mod gate;
mod harness;
pub mod inventory;
pub mod pages;
mod prelude;
pub mod seen;
mod texts;
pub mod trails;
mod trial;

pub use harness::{Backend, Contract, Harness};
