//! The conformance suites: for each contract the one case list that every backend passes.

pub mod gate;

#[doc(hidden)]
pub use crawlway_conformance::suite;
