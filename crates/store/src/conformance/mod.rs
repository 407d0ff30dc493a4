//! The conformance suites: for each contract the one case list that every backend passes.

pub mod gate;
