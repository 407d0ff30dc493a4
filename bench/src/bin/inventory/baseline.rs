//! What people would write by hand, each in a process of its own: a server that answers a record's bytes and does nothing else, and
//! servers that put a URL into SQLite, or into RabbitMQ with a confirmation, before they answer.

use anyhow::{Context, ensure};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    routing::{get, post},
};
use clap::ValueEnum;
use crawlway_bench::{children, program::Running};
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

/// What such a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bare {
    /// Answers a GET with the bytes of a file.
    Bytes,
    /// Inserts what is posted into SQLite, synced.
    Sqlite,
    /// Publishes what is posted to RabbitMQ, confirmed.
    Rabbitmq,
}

const QUEUE: &str = "bare_url_inventory";

impl Bare {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bare axum, the same bytes",
            Self::Sqlite => "bare axum + SQLite, synced",
            Self::Rabbitmq => "bare axum + lapin, confirmed",
        }
    }

    /// Starts this very program again as that server.
    pub(crate) fn start(self, place: &Path) -> anyhow::Result<Running> {
        let name = self.to_possible_value().context("a server without a name")?;
        let mut command = children::command(std::env::current_exe()?);
        command.args(["--serve", name.get_name(), "--dir"]).arg(place);
        Running::start(command)
    }
}

/// The server's side: says where it listens, and serves until it is killed.
pub(crate) fn serve(bare: Bare, place: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let router = match bare {
            Bare::Bytes => bytes(place)?,
            Bare::Sqlite => sqlite(place).await?,
            Bare::Rabbitmq => rabbitmq().await?,
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
    let answer = get(async |State(body): State<Bytes>| ([(header::CONTENT_TYPE, "application/json")], body));
    Ok(Router::new().route("/", answer).with_state(body))
}

#[derive(Deserialize)]
struct NewUrl {
    url: String,
}

async fn sqlite(folder: &Path) -> anyhow::Result<Router> {
    let options = SqliteConnectOptions::new()
        .filename(folder.join("bare.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    // It has one writer at a time, so that more connections would only get in each other's way.
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
    // Both are kept as long as there are requests.
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

/// Removes a queue that an earlier run may have left on the server, perhaps with another limit.
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
