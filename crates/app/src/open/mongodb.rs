//! Opens the store in MongoDB.

use crate::{config::Config, failure::UsageError};
use anyhow::Context;
use crawlway_store::UrlRecords;
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use std::{sync::Arc, time::Duration};

/// URL records of the flow `inventory`; `within` overrides the connect timeout.
pub(super) async fn url_records(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn UrlRecords>> {
    let options = options(config, within).map_err(UsageError)?;
    Ok(Arc::new(MongoStore::open(options).await.context("cannot use MongoDB")?))
}

/// Refuses settings that cannot work, without asking the server.
pub(super) fn check(config: &Config) -> Result<(), String> {
    options(config, None)?.check().map_err(|error| error.to_string())
}

fn options(config: &Config, within: Option<Duration>) -> Result<MongoOptions, String> {
    let settings = &config.inventory.mongodb;
    Ok(MongoOptions {
        database: settings.database.clone(),
        collection: settings.collection.clone(),
        tls: settings.tls.client("inventory.mongodb.tls")?,
        open_timeout: within.unwrap_or(settings.connect_timeout.0),
        ..MongoOptions::new(config.inventory.set_url()?)
    })
}
