//! The conformance suites: for each contract the one case list that every backend passes.

mod expect;
pub mod finding;
pub mod frontier;
pub mod gate;
pub mod inventory;
pub mod pages;
pub mod seen;
mod texts;
pub mod trails;

#[doc(hidden)]
pub use crawlway_conformance::suite;
