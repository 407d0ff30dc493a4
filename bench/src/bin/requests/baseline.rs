//! Baseline: a gateway and a worker, each in its own process, that do the least of the same with axum, rdkafka and redis. Nothing is
//! retried, no host is rate-limited, and a crash between two steps loses a request.

use crate::{crawlway::CONCURRENCY, load};
use anyhow::Context;
use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::{get, post},
};
use clap::ValueEnum;
use crawlway_bench::{child_process, program::Running};
use crawlway_broker::{MessageId, Timestamp};
use crawlway_testkit::servers;
use hyper::Method;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{Consumer as _, StreamConsumer},
    message::{Header, Headers as _, Message as _, OwnedHeaders, OwnedMessage},
    producer::{FutureProducer, FutureRecord},
};
use redis::{AsyncCommands as _, AsyncConnectionConfig, aio::MultiplexedConnection};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};

const PARTITIONS: i32 = 8;
/// Maximum wait of a long poll, and for a confirm.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Part of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Gateway,
    Worker,
}

/// Starts both parts, on topics of their own.
pub(crate) fn start() -> anyhow::Result<Vec<Running>> {
    let topics = format!("bare-{}", &MessageId::random().as_str()[24..]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let admin: AdminClient<DefaultClientContext> = client().create()?;
        let names = [requests(&topics), responses(&topics)];
        let new = names.each_ref().map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1)));
        anyhow::Ok(admin.create_topics(&new, &AdminOptions::new()).await?)
    })?;
    ["gateway", "worker"]
        .into_iter()
        .map(|role| {
            let mut command = child_process::command(std::env::current_exe()?);
            command.args(["--serve", role, "--topics", &topics]);
            Running::start(command)
        })
        .collect()
}

fn requests(topics: &str) -> String {
    format!("{topics}-requests")
}

fn responses(topics: &str) -> String {
    format!("{topics}-responses")
}

fn client() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers::kafka());
    config
}

fn producer() -> anyhow::Result<FutureProducer> {
    let mut config = client();
    Ok(config.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "1").create()?)
}

fn consumer(topic: &str) -> anyhow::Result<Arc<StreamConsumer>> {
    let mut config = client();
    config
        .set("group.id", topic)
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest");
    let consumer: StreamConsumer = config.create()?;
    consumer.subscribe(&[topic])?;
    Ok(Arc::new(consumer))
}

/// Runs a part: prints a line when it has started, and works until it is killed.
pub(crate) fn serve(role: Role, topics: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match role {
            Role::Gateway => gateway(topics).await,
            Role::Worker => worker(topics).await,
        }
    })
}

fn started(line: &Value) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

/// Handles each message of a topic in a task of its own, and stores its offset afterwards.
async fn consume<F: Future<Output = anyhow::Result<()>> + Send + 'static>(
    topic: &str,
    handle: impl Fn(OwnedMessage) -> F,
) -> anyhow::Result<()> {
    let (consumer, limit) = (consumer(topic)?, Arc::new(Semaphore::new(CONCURRENCY as usize)));
    loop {
        let message = consumer.recv().await?.detach();
        let permit = limit.clone().acquire_owned().await?;
        let (consumer, partition, offset) = (consumer.clone(), message.partition(), message.offset());
        let (topic, handling) = (topic.to_owned(), handle(message));
        tokio::spawn(async move {
            let stored = match handling.await {
                Ok(()) => consumer.store_offset(&topic, partition, offset).map_err(anyhow::Error::from),
                Err(error) => Err(error),
            };
            if let Err(error) = stored {
                eprintln!("baseline: {error:#}");
            }
            drop(permit);
        });
    }
}

async fn publish(
    producer: &FutureProducer,
    topic: &str,
    [id, email, created_at]: [&str; 3],
    body: &str,
) -> anyhow::Result<()> {
    let header = |key, value| Header { key, value: Some(value) };
    let headers = OwnedHeaders::new()
        .insert(header("id", id))
        .insert(header("email", email))
        .insert(header("createdAt", created_at));
    let record = FutureRecord::to(topic).key(id).headers(headers).payload(body);
    producer
        .send(record, TIMEOUT)
        .await
        .map_err(|(error, _)| error)
        .context("a message was not confirmed")?;
    Ok(())
}

fn header<'a>(message: &'a OwnedMessage, name: &str) -> anyhow::Result<&'a str> {
    let headers = message.headers().context("a message without headers")?;
    let header = headers.iter().find(|header| header.key == name).and_then(|header| header.value);
    Ok(std::str::from_utf8(header.with_context(|| format!("no header {name}"))?)?)
}

fn body(message: &OwnedMessage) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(message.payload().context("a message without a body")?)?)
}

/// Fetches the page of each request, and answers.
async fn worker(topics: &str) -> anyhow::Result<()> {
    let (http, producer, responses) = (load::http_client(), producer()?, responses(topics));
    started(&json!({ "worker": topics }))?;
    consume(&requests(topics), move |message| {
        let (http, producer, responses) = (http.clone(), producer.clone(), responses.clone());
        async move {
            let request = body(&message)?;
            let url = request["url"].as_str().context("a request without a URL")?;
            let (status, page) = load::call(&http, Method::GET, url, "").await?;
            let text = String::from_utf8_lossy(&page);
            let data = json!({ "url": url, "statusCode": status.as_u16(), "text": text });
            let answer = json!({ "success": true, "scrapedData": data }).to_string();
            let headers =
                [header(&message, "id")?, header(&message, "email")?, header(&message, "createdAt")?];
            publish(&producer, &responses, headers, &answer).await
        }
    })
    .await
}

#[derive(Clone)]
struct Gateway {
    producer: FutureProducer,
    redis: MultiplexedConnection,
    requests: String,
    /// Long polls by the id of their request.
    waiting: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

/// Serves the API, and applies the responses.
async fn gateway(topics: &str) -> anyhow::Result<()> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let client = redis::Client::open(servers::redis())?;
    let redis = client.get_multiplexed_async_connection_with_config(&config).await?;
    let gateway =
        Gateway { producer: producer()?, redis, requests: requests(topics), waiting: Arc::default() };
    let (applying, topic) = (gateway.clone(), responses(topics));
    tokio::spawn(async move {
        let applied = consume(&topic, move |message| applying.clone().apply(message)).await;
        eprintln!("baseline: {applied:?}");
    });
    let router = Router::new()
        .route("/health/ready", get(async || "ready"))
        .route("/api/requests", post(add))
        .route("/api/requests/{id}", get(read))
        .with_state(gateway);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    started(&json!({ "url": format!("http://{}", listener.local_addr()?) }))?;
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

#[derive(Deserialize)]
struct NewRequest {
    url: String,
    email: String,
}

#[derive(Deserialize)]
struct Reader {
    email: String,
}

async fn add(State(gateway): State<Gateway>, Json(new): Json<NewRequest>) -> (StatusCode, String) {
    respond(StatusCode::ACCEPTED, gateway.add(new).await)
}

async fn read(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    Query(reader): Query<Reader>,
) -> (StatusCode, String) {
    respond(StatusCode::OK, gateway.read(&id, &reader.email).await)
}

fn respond(status: StatusCode, result: anyhow::Result<String>) -> (StatusCode, String) {
    result.map_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()), |body| (status, body))
}

fn hash(email: &str) -> String {
    format!("bare:{email}")
}

impl Gateway {
    /// Stores a pending request, and publishes it.
    async fn add(mut self, new: NewRequest) -> anyhow::Result<String> {
        let (id, created_at) = (MessageId::random().to_string(), Timestamp::now().to_iso());
        let NewRequest { url, email } = new;
        let request = json!({ "id": id, "url": url, "email": email, "status": "pending", "result": null, "createdAt": created_at })
            .to_string();
        let _: () = self.redis.hset(hash(&email), &id, &request).await?;
        let body = json!({ "url": url }).to_string();
        publish(&self.producer, &self.requests, [&id, &email, &created_at], &body).await?;
        Ok(request)
    }

    /// Reads a request once it has ended.
    async fn read(mut self, id: &str, email: &str) -> anyhow::Result<String> {
        let ended = self.lock().entry(id.to_owned()).or_default().clone();
        let ended = ended.notified();
        tokio::pin!(ended);
        ended.as_mut().enable();
        let request: String = self.redis.hget(hash(email), id).await?;
        if serde_json::from_str::<Value>(&request)?["status"] != "pending" {
            self.lock().remove(id);
            return Ok(request);
        }
        let _ = tokio::time::timeout(TIMEOUT, ended).await;
        Ok(self.redis.hget(hash(email), id).await?)
    }

    /// Applies a response, and wakes the long poll for it.
    async fn apply(mut self, message: OwnedMessage) -> anyhow::Result<()> {
        let (id, email, mut answer) = (header(&message, "id")?, header(&message, "email")?, body(&message)?);
        let stored: String = self.redis.hget(hash(email), id).await?;
        let mut request: Value = serde_json::from_str(&stored)?;
        request["status"] = json!("completed");
        request["result"] = answer["scrapedData"].take();
        let _: () = self.redis.hset(hash(email), id, request.to_string()).await?;
        if let Some(waiting) = self.lock().remove(id) {
            waiting.notify_waiters();
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
