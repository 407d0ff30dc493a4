//! Test support: addresses of the real servers that `cargo xtask test` starts, private servers of one test, certificates,
//! proxies with network faults and with TLS, foreign clients, web sites and child processes.

pub mod certificates;
pub mod foreign_client;
pub mod full_disk;
pub mod http;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod private_kafka;
pub mod private_mongodb;
pub mod private_postgres;
pub mod private_rabbitmq;
pub mod private_redis;
pub mod process;
pub mod proxy;
mod server_process;
pub mod servers;
pub mod tls_proxy;
pub mod virtual_host;
pub mod web;
