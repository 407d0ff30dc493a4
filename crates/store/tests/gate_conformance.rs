//! The oracle passes the whole suite of the gate, so that what the suite asks for can be had.

mod oracle;

use oracle::{Fault, OracleHarness};

crawlway_store::gate_conformance_suite!(OracleHarness::new(Fault::Nothing));
