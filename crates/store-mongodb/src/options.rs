//! What a store is opened with.

use crawlway_store::StoreError;
use mongodb::{error::Error, options::ConnectionString};
use std::{fmt, time::Duration};

/// What a store is opened with.
#[derive(Clone)]
pub struct MongoOptions {
    /// The address of the server or the replica set, such as `mongodb://user:password@host:27017/?replicaSet=rs0`.
    pub url: String,
    /// The database, unless the address names one.
    pub database: String,
    /// The collection.
    pub collection: String,
    /// How long opening waits for a server that is not there yet.
    pub open_within: Duration,
    /// How long a call waits for its answer before the store counts as unavailable.
    pub answer_within: Duration,
}

impl MongoOptions {
    /// The defaults, for a server there.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            database: "crawlway".to_owned(),
            collection: "urls".to_owned(),
            open_within: Duration::from_secs(30),
            answer_within: Duration::from_secs(15),
        }
    }
}

impl MongoOptions {
    /// Refuses an address that cannot be. Asks no server.
    pub fn check(&self) -> Result<(), StoreError> {
        ConnectionString::parse(&self.url).map(drop).map_err(wrong_address)
    }
}

/// Says that the address cannot be used.
pub(crate) fn wrong_address(error: Error) -> StoreError {
    let problem = format!(
        "the address of MongoDB is wrong, one such as `mongodb://user:password@host:27017` was expected: {error}"
    );
    StoreError::Invalid { problem }
}

/// Never shows the address, which may hold a password.
impl fmt::Debug for MongoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoOptions")
            .field("database", &self.database)
            .field("collection", &self.collection)
            .finish_non_exhaustive()
    }
}
