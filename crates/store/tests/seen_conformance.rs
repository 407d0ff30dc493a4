//! The oracle passes the whole suite of the seen URLs, so that what the suite asks for can be had.

mod seen_oracle;

use seen_oracle::{Fault, OracleHarness};

crawlway_store::seen_conformance_suite!(OracleHarness::new(Fault::Nothing));
