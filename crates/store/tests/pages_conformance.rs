//! The oracle passes the whole suite of the page index, so that what the suite asks for can be had.

mod pages_oracle;

use pages_oracle::{Fault, OracleHarness};

crawlway_store::pages_conformance_suite!(OracleHarness::new(Fault::Nothing));
