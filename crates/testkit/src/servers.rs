//! Where the real servers are, and Python for clients of others. What is missing fails the test that asks for it.

/// The variable that holds the address of a PostgreSQL server on which tests may make databases.
pub const POSTGRES: &str = "CRAWLWAY_TEST_POSTGRES";

/// The variable that holds the address of a RabbitMQ server on which tests may make queues.
pub const RABBITMQ: &str = "CRAWLWAY_TEST_RABBITMQ";

/// The variable that holds the address of that server's management API.
pub const RABBITMQ_MANAGEMENT: &str = "CRAWLWAY_TEST_RABBITMQ_MANAGEMENT";

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

/// The variable that names the Python program that has the packages in `tests/foreign/requirements.txt`.
pub const PYTHON: &str = "CRAWLWAY_TEST_PYTHON";

/// The Python program that runs the clients in `tests/foreign`.
///
/// # Panics
/// If there is none.
pub fn python() -> String {
    address(PYTHON)
}

/// The variable that holds the address of a MongoDB on which tests make databases of their own.
pub const MONGODB: &str = "CRAWLWAY_TEST_MONGODB";

/// The address of the MongoDB that tests share, a replica set of one, such as
/// `mongodb://127.0.0.1:27117/?directConnection=true`. One to kill is
/// [`PrivateMongo`](crate::private_mongodb::PrivateMongo).
///
/// # Panics
/// If there is none.
pub fn mongodb() -> String {
    address(MONGODB)
}

/// A RabbitMQ server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitMq {
    /// Its host.
    pub host: String,
    /// The port for AMQP.
    pub port: u16,
    /// Who may do everything there.
    pub user: String,
    /// That user's password.
    pub password: String,
    /// The address of the management API, such as `http://127.0.0.1:15673`.
    pub management: String,
}

/// The RabbitMQ server that all tests share. Tests give their queues names that no other test has, and leave the server
/// alone; one to kill is [`PrivateRabbitMq`](crate::private_rabbitmq::PrivateRabbitMq).
///
/// # Panics
/// If there is none.
pub fn rabbitmq() -> RabbitMq {
    let (address, management) = (address(RABBITMQ), address(RABBITMQ_MANAGEMENT));
    let parsed = || {
        let (credentials, place) = address.strip_prefix("amqp://")?.split_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let (host, port) = place.trim_end_matches('/').split_once(':')?;
        Some((user, password, host, port.parse().ok()?))
    };
    let (user, password, host, port) = parsed().unwrap_or_else(|| {
        panic!("{RABBITMQ} must be like amqp://guest:guest@127.0.0.1:5673, not `{address}`")
    });
    RabbitMq { host: host.into(), port, user: user.into(), password: password.into(), management }
}

pub(crate) fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "this test needs a real server and {variable} does not say where it is; \
             run `cargo xtask test`, or one command with the servers up: `cargo xtask services -- cargo test …`"
        )
    })
}
