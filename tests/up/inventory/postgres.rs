//! Private PostgreSQL databases, and settings for RabbitMQ and PostgreSQL.

use super::site::Site;
use crate::lab::Lab;
use crawlway_testkit::servers::{self, RabbitMq};
use sqlx::{Connection, Executor, PgConnection};
use tokio::runtime::Runtime;

/// A private database of one test.
pub(crate) struct Database {
    name: String,
}

impl Database {
    pub(crate) fn new(runtime: &Runtime, name: &str) -> Self {
        let name = format!("{name}_{}", std::process::id());
        run(runtime, format!("CREATE DATABASE {name}"));
        Self { name }
    }

    /// URL of the database, with the address of a proxy instead of the server if one is given.
    pub(crate) fn url(&self, proxy: Option<String>) -> String {
        let server = servers::postgres();
        let (address, _) = server.rsplit_once('/').unwrap();
        let (user, own) = address.rsplit_once('@').unwrap();
        format!("{user}@{}/{}", proxy.unwrap_or_else(|| own.to_owned()), self.name)
    }

    pub(crate) fn drop(self, runtime: &Runtime) {
        run(runtime, format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn run(runtime: &Runtime, statement: String) {
    runtime.block_on(async {
        let mut connection = PgConnection::connect(&servers::postgres()).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// Address of the PostgreSQL server of the tests.
pub(crate) fn postgres_address() -> String {
    let server = servers::postgres();
    let (_, rest) = server.rsplit_once('@').unwrap();
    rest.split('/').next().unwrap().to_owned()
}

/// A data directory with its queues on RabbitMQ and its records in PostgreSQL, for one process.
pub(crate) fn lab(site: &Site, broker: RabbitMq, database: String) -> Lab {
    let mut lab = site.lab("only_process = true");
    lab.variables = vec![
        ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", broker.host),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", broker.port.to_string()),
        ("RABBITMQ_USER", broker.user),
        ("RABBITMQ_PASSWORD", broker.password),
        ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database),
        ("CRAWLWAY_RECORDS__POSTGRESQL__CONNECT_TIMEOUT", "1s".to_owned()),
    ];
    lab
}
