//! The oracle passes the whole suite of the frontier, so that what the suite asks for can be had.

mod frontier_oracle;

use frontier_oracle::{Fault, OracleHarness};

crawlway_store::frontier_conformance_suite!(OracleHarness::new(Fault::Nothing));
