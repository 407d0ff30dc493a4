//! Where the real servers are. A server that is missing fails the test that asks for it.

/// The variable that holds the address of a PostgreSQL server on which tests may make databases.
pub const POSTGRES: &str = "CRAWLWAY_TEST_POSTGRES";

/// The address of the PostgreSQL server, such as `postgres://postgres@127.0.0.1:5455/postgres`.
///
/// # Panics
/// If there is none.
pub fn postgres() -> String {
    address(POSTGRES)
}

/// The variable that holds the address of a Redis on which tests keep to keys of their own.
pub const REDIS: &str = "CRAWLWAY_TEST_REDIS";

/// The address of the Redis that tests share, such as `redis://127.0.0.1:6390`. Who wants to stop or empty one
/// starts a [`PrivateRedis`](crate::private_redis::PrivateRedis).
///
/// # Panics
/// If there is none.
pub fn redis() -> String {
    address(REDIS)
}

pub(crate) fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "this test needs a real server and {variable} does not say where it is; \
             run `cargo xtask test`, or one command with the servers up: `cargo xtask services -- cargo test …`"
        )
    })
}
