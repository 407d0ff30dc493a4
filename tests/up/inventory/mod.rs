//! The flow `inventory` through the binary: a URL is posted, fetched, stored and read back, whatever fails meanwhile.

mod apart;
mod foreign;
mod ground;
mod kills;
mod outages;
mod serves;
mod shared;
mod site;

pub(crate) use shared::{Database, postgres_address};
