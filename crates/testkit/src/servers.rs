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

fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "this test needs a real server and {variable} does not say where it is; \
             run `cargo xtask test`, or one command with the servers up: `cargo xtask services -- cargo test …`"
        )
    })
}
