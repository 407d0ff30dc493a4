//! Where commands find what they ask about: a gateway that runs, or else the data directory. What they are told has one shape,
//! whichever it was.

mod client;
mod crawls;
mod pages;
mod queues;
mod removal;
mod stored;
mod trails;
mod urls;

pub(crate) use client::{Client, Refused};
pub(crate) use crawls::Crawls;
pub(crate) use pages::search;
pub(crate) use queues::Queues;
pub(crate) use removal::PagesToRemove;
pub(crate) use stored::StoredPages;
pub(crate) use trails::trails;
pub(crate) use urls::{Adding, get as url, list as urls};

use crate::{config::Config, failure::UsageError, presence};

/// Where a command asks.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    /// A gateway.
    Gateway(Client),
    /// The data directory that the settings name.
    Data(&'a Config),
}

impl<'a> Place<'a> {
    /// The gateway that the settings name, or the one that runs on the data directory; else the data directory.
    pub(crate) fn of(config: &'a Config) -> anyhow::Result<Self> {
        let address = match (config.gateway.url(), presence::running(&config.data_dir)) {
            (Some(url), _) => {
                config.gateway.check_token_is_for_url().map_err(UsageError)?;
                url.map_err(UsageError)?
            }
            (None, Some(running)) => running.url()?,
            (None, None) => return Ok(Self::Data(config)),
        };
        let client = Client::new(address, &config.gateway);
        // What runs on the data directory runs here.
        Ok(Self::Gateway(if config.gateway.url().is_none() { client.of_this_machine() } else { client }))
    }
}
