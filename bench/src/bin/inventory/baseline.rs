//! Baseline servers, each in its own process: static bytes, an insert into SQLite, or a confirmed publish to RabbitMQ.

use anyhow::{Context, ensure};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    routing::{get, post},
};
use clap::ValueEnum;
use crawlway_bench::{child_process, program::Running};
use crawlway_testkit::servers;
use hyper::{StatusCode, header};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions,
    },
    types::FieldTable,
};
use serde::Deserialize;
use serde_json::json;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{io::Write, path::Path};

/// Kind of baseline server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Baseline {
    /// Serves the bytes of a file.
    Bytes,
    /// Inserts posted URLs into SQLite, synced.
    Sqlite,
    /// Publishes posted URLs to RabbitMQ, confirmed.
    Rabbitmq,
}

const QUEUE: &str = "baseline_url_inventory";

impl Baseline {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "plain axum, the same bytes",
            Self::Sqlite => "plain axum + SQLite, synced",
            Self::Rabbitmq => "plain axum + lapin, confirmed",
        }
    }

    /// Starts this program again as that server.
    pub(crate) fn start(self, path: &Path) -> anyhow::Result<Running> {
        let name = self.to_possible_value().context("a server without a name")?;
        let mut command = child_process::command(std::env::current_exe()?);
        command.args(["--serve", name.get_name(), "--dir"]).arg(path);
        Running::start(command)
    }
}

/// Server: prints its URL, and serves until it is killed.
pub(crate) fn serve(baseline: Baseline, path: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let router = match baseline {
            Baseline::Bytes => bytes(path)?,
            Baseline::Sqlite => sqlite(path).await?,
            Baseline::Rabbitmq => rabbitmq().await?,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{}", json!({ "url": format!("http://{}", listener.local_addr()?) }))?;
        stdout.flush()?;
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, router).await?;
        Ok(())
    })
}

fn bytes(file: &Path) -> anyhow::Result<Router> {
    let body = Bytes::from(std::fs::read(file)?);
    let response =
        get(async |State(body): State<Bytes>| ([(header::CONTENT_TYPE, "application/json")], body));
    Ok(Router::new().route("/", response).with_state(body))
}

#[derive(Deserialize)]
struct NewUrl {
    url: String,
}

async fn sqlite(folder: &Path) -> anyhow::Result<Router> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("baseline.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    // SQLite has one writer at a time.
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    sqlx::query("CREATE TABLE queue (id INTEGER PRIMARY KEY, url TEXT NOT NULL)").execute(&pool).await?;
    Ok(Router::new().route("/api/urls", post(insert)).with_state(pool))
}

async fn insert(State(pool): State<SqlitePool>, Json(new): Json<NewUrl>) -> (StatusCode, Bytes) {
    match sqlx::query("INSERT INTO queue (url) VALUES (?)").bind(new.url).execute(&pool).await {
        Ok(_) => (StatusCode::ACCEPTED, Bytes::new()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into()),
    }
}

async fn rabbitmq() -> anyhow::Result<Router> {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await?;
    channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    // The connection must outlive the channel.
    let state = (std::sync::Arc::new(connection), channel);
    let publish = async |State((_, channel)): State<(std::sync::Arc<Connection>, Channel)>,
                         Json(new): Json<NewUrl>| {
        match publish(&channel, &new.url).await {
            Ok(()) => (StatusCode::ACCEPTED, Bytes::new()),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into()),
        }
    };
    Ok(Router::new().route("/api/urls", post(publish)).with_state(state))
}

async fn publish(channel: &Channel, url: &str) -> anyhow::Result<()> {
    let body = json!({ "url": url }).to_string();
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirm =
        channel.basic_publish("".into(), QUEUE.into(), options, body.as_bytes(), persistent).await?.await?;
    ensure!(confirm.is_ack(), "the message was not confirmed");
    Ok(())
}

async fn connect() -> anyhow::Result<Connection> {
    let server = servers::rabbitmq();
    let address = format!("amqp://{}:{}@{}:{}/%2f", server.user, server.password, server.host, server.port);
    Ok(Connection::connect(&address, ConnectionProperties::default()).await?)
}

/// Deletes the queue of an earlier run, which may have another maximum length.
pub(crate) fn delete_queue(name: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = connect().await?;
        let channel = connection.create_channel().await?;
        channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
        connection.close(200, "done".into()).await?;
        Ok(())
    })
}
