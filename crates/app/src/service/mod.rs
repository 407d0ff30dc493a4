//! Service layer of the commands: each question is answered by a running gateway over HTTP, or from the data directory. Both
//! give the same types.

mod client;
mod crawls;
mod events;
mod pages;
mod queues;
mod removal;
mod requests;
mod stored;
mod tokens;
mod trails;
mod urls;

pub(crate) use client::{Client, problem_of};
pub(crate) use crawls::Crawls;
pub(crate) use pages::search;
pub(crate) use queues::Queues;
pub(crate) use removal::PageRemoval;
pub(crate) use requests::UserRequests;
pub(crate) use stored::StoredPages;
pub(crate) use tokens::Tokens;
pub(crate) use trails::trails;
pub(crate) use urls::{UrlSubmitter, get as url, list as urls};

use crate::{config::Config, failure::UsageError, gateway_file};

/// Target of a command.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    /// A gateway.
    Remote(Client),
    /// The data directory of the settings.
    Local(&'a Config),
}

impl<'a> Target<'a> {
    /// The gateway of `gateway.url`, else the gateway that runs on the data directory, else the data directory.
    pub(crate) fn of(config: &'a Config) -> anyhow::Result<Self> {
        if let Some(url) = config.gateway.url() {
            config.gateway.check_token_is_for_url().map_err(UsageError)?;
            return Ok(Self::Remote(Client::new(url.map_err(UsageError)?, &config.gateway)?));
        }
        match gateway_file::running(&config.data_dir) {
            Some(running) => {
                let client = Client::new(running.url()?, &config.gateway)?;
                Ok(Self::Remote(client.with_token_for_this_machine_only()))
            }
            None => Ok(Self::Local(config)),
        }
    }
}
