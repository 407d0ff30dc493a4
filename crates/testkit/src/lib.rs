//! What tests need and no user gets: the addresses of the real servers that `cargo xtask test` starts.

pub mod private_redis;
pub mod servers;
