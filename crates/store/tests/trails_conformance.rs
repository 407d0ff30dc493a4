//! The oracle passes the whole suite of the trails, so that what the suite asks for can be had.

mod trails_oracle;

use trails_oracle::{Fault, OracleHarness};

crawlway_store::trails_conformance_suite!(OracleHarness::new(Fault::Nothing));
