//! Test support: addresses of the real servers that `cargo xtask test` starts, private servers of one test, a proxy with
//! network faults, and foreign clients.

pub mod http;
pub mod private_mongodb;
pub mod private_rabbitmq;
pub mod private_redis;
pub mod proxy;
mod server_process;
pub mod servers;
pub mod stranger;
pub mod virtual_host;
