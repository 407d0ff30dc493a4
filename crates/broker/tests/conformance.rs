//! The oracle passes the whole suite, so that what the suite asks for can be had.

mod oracle;

use oracle::{Fault, OracleHarness};

crawlway_broker::conformance_suite!(OracleHarness::with(Fault::Nothing));
