//! What tests need and no user gets: where the real servers are that `cargo xtask test` starts, servers of one's own,
//! a proxy that fails when told to, and programs of strangers.

pub mod http;
mod kept;
pub mod private_mongodb;
pub mod private_rabbitmq;
pub mod private_redis;
pub mod proxy;
pub mod servers;
pub mod stranger;
pub mod virtual_host;
