//! The oracle passes the whole suite of the inventory records, so that what the suite asks for can be had.

mod inventory_oracle;

use inventory_oracle::{Fault, OracleHarness};

crawlway_store::inventory_conformance_suite!(OracleHarness::new(Fault::Nothing));
