//! Kafka through the broker contract, compared with its plain client.

use crate::{
    Arguments, CONSUMERS, IN_FLIGHT, PUBLISHERS, Row,
    broker::{self, Calls},
    print_table,
};
use anyhow::Context;
use crawlway_broker::{Bytes, MessageId, QueueBackend};
use crawlway_broker_kafka::Options;
use crawlway_store::{Ledger, LedgerPolicy};
use crawlway_store_redis::{RedisOptions, RedisStore};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_testkit::servers;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    producer::{FutureProducer, FutureRecord},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const PARTITIONS: i32 = 8;

pub(crate) fn compare(arguments: &Arguments, folder: &Path) -> anyhow::Result<()> {
    let Arguments { size, runs, .. } = *arguments;
    let messages = arguments.messages.unwrap_or(40_000) / IN_FLIGHT * IN_FLIGHT;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = [
        Row::new("plain client, 64 publisher confirms at a time, a commit per 64"),
        Row::new("Kafka, ledger in Redis, 64 per call"),
        Row::new("Kafka, ledger in SQLite, 64 per call"),
        Row::new("Kafka, ledger in SQLite, 64 concurrent calls of 1"),
    ];
    for run in 0..runs {
        let file = folder.join(format!("ledger-{run}.db"));
        let times = [
            runtime.block_on(run_baseline(messages, size))?,
            runtime.block_on(async { run_broker(redis().await?, messages, size, Calls::Batches).await })?,
            runtime
                .block_on(async { run_broker(sqlite(&file).await?, messages, size, Calls::Batches).await })?,
            runtime
                .block_on(async { run_broker(sqlite(&file).await?, messages, size, Calls::Singles).await })?,
        ];
        rows.iter_mut().zip(times).for_each(|(row, time)| row.times.push(time));
        eprintln!("run {} of {runs} done", run + 1);
    }
    print_table(&rows, messages, size, runs);
    Ok(())
}

async fn redis() -> anyhow::Result<Arc<dyn Ledger>> {
    let prefix = format!("bench-{}", std::process::id());
    let store = RedisStore::connect(RedisOptions { prefix, ..RedisOptions::new(servers::redis()) }).await?;
    Ok(Arc::new(store.ledger(LedgerPolicy::default())?))
}

async fn sqlite(file: &Path) -> anyhow::Result<Arc<dyn Ledger>> {
    let store = SqlStore::open(SqlOptions::new(Database::Sqlite(file.to_owned()))).await?;
    Ok(Arc::new(store.ledger(LedgerPolicy::default())?))
}

async fn run_broker(
    ledger: Arc<dyn Ledger>,
    messages: usize,
    size: usize,
    calls: Calls,
) -> anyhow::Result<Duration> {
    let partitions = PARTITIONS.unsigned_abs();
    let options = Options { servers: servers::kafka(), partitions, ..Options::default() };
    let broker: Arc<dyn QueueBackend> = Arc::new(crawlway_broker_kafka::connect(options, ledger).await?);
    let took = broker::work(broker.clone(), messages, size, calls).await?;
    broker.close().await?;
    Ok(took)
}

/// Plain client: one idempotent producer, and one consumer whose tasks commit after each batch.
async fn run_baseline(messages: usize, size: usize) -> anyhow::Result<Duration> {
    let topic = format!("baseline-{}", &MessageId::random().as_str()[24..]);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers::kafka());
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    admin.create_topics(&[new], &AdminOptions::new()).await?;
    let mut producing = config.clone();
    producing.set("enable.idempotence", "true").set("acks", "all").set("linger.ms", "1");
    let producer: FutureProducer = producing.create()?;
    config
        .set("group.id", &topic)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("partition.assignment.strategy", "cooperative-sticky");

    let body = Bytes::from(vec![b'x'; size]);
    let started = Instant::now();
    let left = Arc::new(AtomicUsize::new(messages / IN_FLIGHT));
    let mut tasks = Vec::new();
    for _ in 0..PUBLISHERS {
        tasks.push(tokio::spawn(publish(producer.clone(), topic.clone(), body.clone(), left.clone())));
    }
    let settled = Arc::new(AtomicUsize::new(0));
    // One member, as a process of Crawlway has: a second one would begin with a rebalance.
    let consumer: Arc<StreamConsumer> = Arc::new(config.create()?);
    consumer.subscribe(&[&topic])?;
    for _ in 0..CONSUMERS {
        tasks.push(tokio::spawn(consume(consumer.clone(), settled.clone(), messages)));
    }
    for task in tasks {
        task.await??;
    }
    let took = started.elapsed();
    admin.delete_topics(&[&topic], &AdminOptions::new()).await?;
    Ok(took)
}

async fn publish(
    producer: FutureProducer,
    topic: String,
    body: Bytes,
    left: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let mut confirms = Vec::with_capacity(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            let record = FutureRecord::<[u8], [u8]>::to(&topic).payload(&body);
            confirms.push(producer.send_result(record).map_err(|(error, _)| error)?);
        }
        for confirm in confirms {
            confirm.await?.map_err(|(error, _)| error).context("a message was not confirmed")?;
        }
    }
    Ok(())
}

async fn consume(
    consumer: Arc<StreamConsumer>,
    settled: Arc<AtomicUsize>,
    messages: usize,
) -> anyhow::Result<()> {
    let mut batch = 0;
    while settled.load(Ordering::Relaxed) < messages {
        if let Ok(record) = tokio::time::timeout(Duration::from_millis(20), consumer.recv()).await {
            consumer.store_offset_from_message(&record?)?;
            batch += 1;
            if batch < IN_FLIGHT {
                continue;
            }
        }
        if batch > 0 {
            consumer.commit_consumer_state(CommitMode::Sync)?;
            settled.fetch_add(batch, Ordering::Relaxed);
            batch = 0;
        }
    }
    Ok(())
}
