//! RabbitMQ through the broker contract, compared with its plain client and the embedded queue.

use crate::{
    Arguments, CONSUMERS, IN_FLIGHT, PUBLISHERS, Row,
    broker::{self, Calls},
    print_table,
};
use anyhow::{Context, ensure};
use crawlway_broker::{Bytes, MessageId, QueueBackend};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::servers;
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
        QueueDeclareOptions, QueueDeleteOptions,
    },
    types::FieldTable,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) fn compare(arguments: &Arguments, folder: &Path) -> anyhow::Result<()> {
    let Arguments { size, runs, .. } = *arguments;
    let messages = arguments.messages.unwrap_or(40_000) / IN_FLIGHT * IN_FLIGHT;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = [
        Row::new("plain client, 64 publisher confirms at a time"),
        Row::new("RabbitMQ, 64 per call"),
        Row::new("RabbitMQ, 64 concurrent calls of 1"),
        Row::new("embedded queue, 64 per call"),
        Row::new("embedded queue, 64 concurrent calls of 1"),
    ];
    for run in 0..runs {
        let embedded = |calls| broker::run(&folder.join(format!("embedded-{run}")), messages, size, calls);
        let times = [
            runtime.block_on(run_baseline(messages, size))?,
            runtime.block_on(run_broker(messages, size, Calls::Batches))?,
            runtime.block_on(run_broker(messages, size, Calls::Singles))?,
            embedded(Calls::Batches)?,
            embedded(Calls::Singles)?,
        ];
        rows.iter_mut().zip(times).for_each(|(row, time)| row.times.push(time));
        eprintln!("run {} of {runs} done", run + 1);
    }
    print_table(&rows, messages, size, runs);
    Ok(())
}

async fn run_broker(messages: usize, size: usize, calls: Calls) -> anyhow::Result<Duration> {
    let server = servers::rabbitmq();
    let options = Options {
        host: server.host,
        port: server.port,
        user: server.user,
        password: server.password,
        ..Options::default()
    };
    let broker: Arc<dyn QueueBackend> = Arc::new(RabbitBroker::connect(options).await?);
    let took = broker::work(broker.clone(), messages, size, calls).await?;
    broker.close().await?;
    Ok(took)
}

/// Plain client: a connection for publishing and one for consuming, a channel per task, and an ack per message.
async fn run_baseline(messages: usize, size: usize) -> anyhow::Result<Duration> {
    let server = servers::rabbitmq();
    let address = format!("amqp://{}:{}@{}:{}/%2f", server.user, server.password, server.host, server.port);
    let publishing = Connection::connect(&address, ConnectionProperties::default()).await?;
    let consuming = Connection::connect(&address, ConnectionProperties::default()).await?;
    let queue = format!("baseline-{}", &MessageId::random().as_str()[24..]);
    let control = consuming.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    control.queue_declare(queue.as_str().into(), durable, FieldTable::default()).await?;

    let body = Bytes::from(vec![b'x'; size]);
    let started = Instant::now();
    let left = Arc::new(AtomicUsize::new(messages / IN_FLIGHT));
    let mut tasks = Vec::new();
    for _ in 0..PUBLISHERS {
        let channel = publishing.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        tasks.push(tokio::spawn(publish(channel, queue.clone(), body.clone(), left.clone())));
    }
    let settled = Arc::new(AtomicUsize::new(0));
    for _ in 0..CONSUMERS {
        let channel = consuming.create_channel().await?;
        tasks.push(tokio::spawn(consume(channel, queue.clone(), settled.clone(), messages)));
    }
    for task in tasks {
        task.await??;
    }
    let took = started.elapsed();
    control.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    Ok(took)
}

async fn publish(channel: Channel, queue: String, body: Bytes, left: Arc<AtomicUsize>) -> anyhow::Result<()> {
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let sent = futures::future::try_join_all((0..IN_FLIGHT).map(|_| {
            let properties = BasicProperties::default()
                .with_delivery_mode(2)
                .with_message_id(MessageId::random().as_str().into());
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            channel.basic_publish("".into(), queue.as_str().into(), options, &body, properties)
        }));
        for confirm in sent.await? {
            ensure!(confirm.await?.is_ack(), "a message was not confirmed");
        }
    }
    Ok(())
}

async fn consume(
    channel: Channel,
    queue: String,
    settled: Arc<AtomicUsize>,
    messages: usize,
) -> anyhow::Result<()> {
    channel.basic_qos(IN_FLIGHT as u16, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer =
        channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await?;
    while settled.load(Ordering::Relaxed) < messages {
        let Ok(delivery) = tokio::time::timeout(Duration::from_millis(20), consumer.next()).await else {
            continue;
        };
        let delivery = delivery.context("the consumer was cancelled")??;
        delivery.acker.ack(BasicAckOptions::default()).await?;
        settled.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
