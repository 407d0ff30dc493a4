//! Conformance suite of the inventory records on MongoDB.

mod harness;

use harness::MongoHarness;

crawlway_store_conformance::inventory!(MongoHarness::new());
