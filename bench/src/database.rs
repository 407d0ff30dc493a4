//! PostgreSQL database of one run.

use crawlway_testkit::servers;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::runtime::Runtime;

/// Database of one run.
#[derive(Debug)]
pub struct Database {
    name: String,
    runtime: Runtime,
    connection: PgConnection,
}

impl Database {
    /// Creates a database, named after the run.
    pub fn create(run: &str) -> anyhow::Result<Self> {
        let name = format!("bench_{}_{}", std::process::id(), run.replace('-', "_"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        on_server(&runtime, format!("CREATE DATABASE {name}"))?;
        let connection = runtime.block_on(PgConnection::connect(&address(&name)))?;
        Ok(Self { name, runtime, connection })
    }

    /// Unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// URL.
    pub fn url(&self) -> String {
        address(&self.name)
    }

    /// Result of a query for a number.
    pub fn count(&mut self, query: &'static str) -> anyhow::Result<usize> {
        let count: i64 = self.runtime.block_on(sqlx::query_scalar(query).fetch_one(&mut self.connection))?;
        Ok(usize::try_from(count)?)
    }

    /// Drops the database.
    pub fn drop(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.connection.close())?;
        on_server(&self.runtime, format!("DROP DATABASE {} WITH (FORCE)", self.name))
    }
}

fn on_server(runtime: &Runtime, statement: String) -> anyhow::Result<()> {
    runtime.block_on(async {
        let mut server = PgConnection::connect(&servers::postgres()).await?;
        server.execute(AssertSqlSafe(statement)).await?;
        server.close().await?;
        Ok(())
    })
}

fn address(database: &str) -> String {
    let server = servers::postgres();
    let base = server.rsplit_once('/').map_or(server.as_str(), |(base, _)| base);
    format!("{base}/{database}")
}
