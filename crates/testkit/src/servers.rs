//! Addresses of the real servers, and Python for foreign clients. A missing one fails the test.

/// Environment variable with the URL of a PostgreSQL server on which tests may create databases.
pub const POSTGRES: &str = "CRAWLWAY_TEST_POSTGRES";

/// Environment variable with the URL of a RabbitMQ server on which tests may create queues.
pub const RABBITMQ: &str = "CRAWLWAY_TEST_RABBITMQ";

/// Environment variable with the URL of its management API.
pub const RABBITMQ_MANAGEMENT: &str = "CRAWLWAY_TEST_RABBITMQ_MANAGEMENT";

/// URL of the PostgreSQL server, such as `postgres://postgres@127.0.0.1:5455/postgres`.
///
/// # Panics
/// If the variable is not set.
pub fn postgres() -> String {
    address(POSTGRES)
}

/// Environment variable with the URL of a Redis on which tests use keys of their own.
pub const REDIS: &str = "CRAWLWAY_TEST_REDIS";

/// URL of the shared Redis, such as `redis://127.0.0.1:6390`. To stop or empty a server, use a
/// [`PrivateRedis`](crate::private_redis::PrivateRedis).
///
/// # Panics
/// If the variable is not set.
pub fn redis() -> String {
    address(REDIS)
}

/// Environment variable with a Python that has the packages in `tests/foreign/requirements.txt`.
pub const PYTHON: &str = "CRAWLWAY_TEST_PYTHON";

/// Python for the clients in `tests/foreign`.
///
/// # Panics
/// If the variable is not set.
pub fn python() -> String {
    address(PYTHON)
}

/// Environment variable with the URL of a MongoDB on which tests create databases of their own.
pub const MONGODB: &str = "CRAWLWAY_TEST_MONGODB";

/// URL of the shared MongoDB, a replica set of one, such as `mongodb://127.0.0.1:27117/?directConnection=true`. To kill a
/// server, use a [`PrivateMongoDb`](crate::private_mongodb::PrivateMongoDb).
///
/// # Panics
/// If the variable is not set.
pub fn mongodb() -> String {
    address(MONGODB)
}

/// Environment variable with the address of a Kafka on which tests create topics of their own.
pub const KAFKA: &str = "CRAWLWAY_TEST_KAFKA";

/// Address of the shared Kafka, such as `127.0.0.1:9093`. To kill a server, use a
/// [`PrivateKafka`](crate::private_kafka::PrivateKafka).
///
/// # Panics
/// If the variable is not set.
pub fn kafka() -> String {
    address(KAFKA)
}

/// Environment variable with the URL of a stand-in of Amazon SQS on which tests create queues of their own.
pub const SQS: &str = "CRAWLWAY_TEST_SQS";

/// URL of the shared stand-in of SQS, such as `http://127.0.0.1:4578`.
///
/// # Panics
/// If the variable is not set.
pub fn sqs() -> String {
    address(SQS)
}

/// Environment variable with the URL of a server with the API of S3, on which tests create buckets of their own.
pub const S3: &str = "CRAWLWAY_TEST_S3";

/// URL of the shared stand-in of S3, such as `http://127.0.0.1:4578`.
///
/// # Panics
/// If the variable is not set.
pub fn s3() -> String {
    address(S3)
}

/// Address and credentials of a RabbitMQ server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitMq {
    /// Host.
    pub host: String,
    /// AMQP port.
    pub port: u16,
    /// User with all permissions.
    pub user: String,
    /// Password of the user.
    pub password: String,
    /// URL of the management API, such as `http://127.0.0.1:15673`.
    pub management: String,
}

/// Shared RabbitMQ server, on which tests use unique queue names. To kill a server, use a
/// [`PrivateRabbitMq`](crate::private_rabbitmq::PrivateRabbitMq).
///
/// # Panics
/// If the variable is not set.
pub fn rabbitmq() -> RabbitMq {
    let (address, management) = (address(RABBITMQ), address(RABBITMQ_MANAGEMENT));
    let parsed = || {
        let (credentials, authority) = address.strip_prefix("amqp://")?.split_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let (host, port) = authority.trim_end_matches('/').split_once(':')?;
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
            "this test needs a real server, but {variable} is not set; \
             run `cargo xtask test`, or one command with the servers up: `cargo xtask services -- cargo test …`"
        )
    })
}
