//! The inventory records pass their suite on MongoDB.

mod harness;

use harness::MongoHarness;

crawlway_store_conformance::inventory!(MongoHarness::new());
