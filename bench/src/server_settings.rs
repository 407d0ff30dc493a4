//! Settings for the servers that `cargo xtask bench` starts.

use crate::database::Database;
use crawlway_testkit::servers;

/// Settings for queues on RabbitMQ.
pub fn rabbitmq() -> Vec<(&'static str, String)> {
    let server = servers::rabbitmq();
    vec![
        ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", server.host),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", server.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", server.management),
        ("RABBITMQ_USER", server.user),
        ("RABBITMQ_PASSWORD", server.password),
    ]
}

/// Settings for records and search index in PostgreSQL.
pub fn postgres(database: &Database) -> Vec<(&'static str, String)> {
    vec![
        ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url()),
        ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
    ]
}
