//! The flow `inventory` end to end, through the binary: a URL is posted, fetched, stored and read back, also during outages and
//! kills.

mod changing_pace;
mod deployment;
mod kills;
mod outages;
pub(crate) mod postgres;
mod single_process;
mod site;
mod third_party_clients;
mod two_processes;

pub(crate) use postgres::{Database, postgres_address};
pub(crate) use site::{Site, lab};
