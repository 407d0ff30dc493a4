//! Options of the store.

use crawlway_store::StoreError;
use mongodb::{error::Error, options::ConnectionString};
use std::{fmt, time::Duration};

/// Options of [`MongoStore`](crate::MongoStore).
#[derive(Clone)]
pub struct MongoOptions {
    /// URL of the server or the replica set, such as `mongodb://user:password@host:27017/?replicaSet=rs0`.
    pub url: String,
    /// The database, unless the URL names one.
    pub database: String,
    /// The collection.
    pub collection: String,
    /// How long opening waits for an unavailable server.
    pub open_timeout: Duration,
    /// Timeout of a call.
    pub call_timeout: Duration,
}

impl MongoOptions {
    /// Default options for this server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            database: "crawlway".to_owned(),
            collection: "urls".to_owned(),
            open_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(15),
        }
    }

    /// Validates the URL, without a connection.
    pub fn check(&self) -> Result<(), StoreError> {
        ConnectionString::parse(&self.url).map(drop).map_err(invalid_url)
    }
}

pub(crate) fn invalid_url(error: Error) -> StoreError {
    let problem = format!(
        "the MongoDB URL is invalid, one such as `mongodb://user:password@host:27017` was expected: {error}"
    );
    StoreError::Invalid { problem }
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for MongoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoOptions")
            .field("database", &self.database)
            .field("collection", &self.collection)
            .finish_non_exhaustive()
    }
}
