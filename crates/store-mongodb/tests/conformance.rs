//! The inventory records pass their suite on MongoDB.

mod harness;

use harness::MongoHarness;

crawlway_store::inventory_conformance_suite!(MongoHarness::new());
