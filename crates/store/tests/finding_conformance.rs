//! The oracle passes the whole suite of searching, so that what the suite asks for can be had.

mod finding_oracle;

use finding_oracle::{Fault, OracleHarness};

crawlway_store::finding_conformance_suite!(OracleHarness::new(Fault::Nothing));
