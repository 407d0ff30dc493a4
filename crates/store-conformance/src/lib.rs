//! Conformance suites of the store contracts: one list of cases for each contract, which every backend passes.
//!
//! A backend implements [`Backend`] and [`Harness`] for a type in its tests and invokes the macros of its suites, such as
//! `crawlway_store_conformance::frontier!(SqliteHarness::new())`, which expand to one test per case. Each suite is a module
//! with its table of cases, for instance [`frontier::CASES`].

#[macro_use]
mod suite;

pub mod blobs;
mod fixture;
pub mod frontier;
mod harness;
pub mod inventory;
pub mod ledger;
pub mod pages;
mod prelude;
pub mod rate_limiter;
pub mod requests;
pub mod runs;
mod script;
pub mod search;
pub mod seen;
mod texts;
pub mod tokens;
pub mod trails;

pub use harness::{Backend, Contract, Harness};
