//! Fault injection: restarts and kills of the server, and dropped, reset, slow and half-open connections lose nothing.

mod support;

use crawlway_broker::{
    Broker, BrokerError, MaxLength, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, SettleError,
    Timestamp, Verdict,
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::{
    private_rabbitmq::PrivateRabbitMq,
    proxy::{Mode, Proxy},
    servers,
};
use lapin::types::{AMQPValue, FieldTable};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{
    DEADLINE, RejectPolicy, counts, eventually, finish_all, foreign_client, foreign_declare, foreign_delete,
    foreign_get, frame_proxy, lose_worker, open, options, proxied, publish, publish_all, publish_due,
    publish_numbers, queue, receive_one, settle,
};

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("item-{i}")).collect()
}

/// A publisher and a consumer of a queue, with a broker handle each.
struct Traffic {
    expected: BTreeSet<String>,
    finished: Arc<Mutex<BTreeSet<String>>>,
    publisher: tokio::task::JoinHandle<()>,
    consumer: tokio::task::JoinHandle<()>,
}

impl Traffic {
    async fn start(options: &Options, queue: &QueueName, count: usize) -> Self {
        let spec = QueueSpec::new(queue.clone()).max_attempts(1000);
        let finished = Arc::new(Mutex::new(BTreeSet::new()));
        let publisher =
            tokio::spawn(publish_all(open(options.clone(), &spec).await, queue.clone(), ids(count)));
        let consumer =
            tokio::spawn(finish_all(open(options.clone(), &spec).await, queue.clone(), finished.clone()));
        Self { expected: ids(count).into_iter().collect(), finished, publisher, consumer }
    }

    /// Waits until so many messages are finished.
    async fn reaches(&self, count: usize) {
        let finished = async || self.finished.lock().expect("no task panicked").len() >= count;
        eventually(&format!("{count} messages are finished"), finished).await;
    }

    /// Waits until every message is finished.
    async fn loses_nothing(mut self) {
        let published = tokio::time::timeout(DEADLINE, &mut self.publisher).await;
        published.expect("all are published").expect("the publishing task");
        self.reaches(self.expected.len()).await;
        self.consumer.abort();
        assert_eq!(*self.finished.lock().expect("no task panicked"), self.expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_and_kills_of_the_server_lose_nothing() {
    let mut server = tokio::task::spawn_blocking(PrivateRabbitMq::start).await.unwrap();
    let queue = queue("restarts").name;
    let mut options = options(&server.server());
    options.confirm_timeout = Duration::from_secs(5);
    let traffic = Traffic::start(&options, &queue, 10_000).await;
    for (round, after) in [500, 3_000, 6_000].into_iter().enumerate() {
        traffic.reaches(after).await;
        server = tokio::task::spawn_blocking(move || {
            if round == 1 {
                server.stop();
            } else {
                server.kill();
            }
            server.restart();
            server
        })
        .await
        .unwrap();
    }
    traffic.loses_nothing().await;
}

/// Injects a network fault three times during traffic.
async fn survives(prefix: &str, fault: impl AsyncFn(&Proxy)) {
    let (proxy, mut options) = proxied(&servers::rabbitmq()).await;
    let queue = queue(prefix).name;
    options.heartbeat = Duration::from_secs(1);
    options.confirm_timeout = Duration::from_secs(3);
    let traffic = Traffic::start(&options, &queue, 3_000).await;
    for after in [200, 800, 1_600] {
        traffic.reaches(after).await;
        fault(&proxy).await;
    }
    traffic.loses_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_connections_lose_nothing() {
    survives("dropped", async |proxy| proxy.close_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_connections_lose_nothing() {
    survives("reset", async |proxy| proxy.reset_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_loses_nothing() {
    survives("slow", async |proxy| {
        proxy.set(Mode::Slow(Duration::from_millis(200)));
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.set(Mode::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_lose_nothing() {
    survives("half-open", async |proxy| {
        proxy.set(Mode::Silent);
        // Longer than the heartbeat timeout of both sides.
        tokio::time::sleep(Duration::from_secs(6)).await;
        proxy.set(Mode::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_connections_lose_nothing() {
    survives("stuck", async |proxy| {
        proxy.set(Mode::Stuck);
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.set(Mode::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_while_disconnected_and_recover() {
    let (proxy, mut options) = proxied(&servers::rabbitmq()).await;
    options.connection_timeout = Duration::from_millis(200);
    let spec = queue("away");
    let broker = open(options, &spec).await;
    let message = || vec![Outgoing::to_queue(&spec.name, "a")];
    assert_eq!(broker.publish(message()).await, [Ok(())]);
    let leased = receive_one(&broker, &spec.name).await;
    assert_eq!(broker.reachable(), Ok(()));

    proxy.set(Mode::Down);
    eventually("the loss is noticed", async || broker.depth(&spec.name).await.is_err()).await;
    let error = broker.reachable().expect_err("it is disconnected").to_string();
    assert!(error.contains("not connected"), "{error}");
    let published = broker.publish(message()).await.remove(0);
    assert!(published.as_ref().is_err_and(|error| error.is_transient()), "{published:?}");
    let received = broker.receive(&spec.name, 1, Duration::from_millis(100)).await;
    assert!(received.is_err(), "{received:?}");
    let fenced = broker.settle(vec![(leased.receipt, Verdict::Done)]).await.remove(0);
    assert_eq!(fenced, Err(SettleError::Fenced { queue: spec.name.clone() }));

    proxy.set(Mode::Up);
    eventually("it is reconnected", async || broker.publish(message()).await == [Ok(())]).await;
    assert_eq!(broker.reachable(), Ok(()));
    let mut again = Vec::new();
    while again.len() < 2 {
        again.extend(broker.receive(&spec.name, 10, Duration::from_secs(1)).await.unwrap_or_default());
    }
    assert!(again.iter().any(|delivery| delivery.message.id == leased.message.id), "it is redelivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_ack_blocks_nothing() {
    let server = servers::rabbitmq();
    let answers = Arc::new(AtomicUsize::new(0));
    let count = answers.clone();
    let drop_first_answer = move |frame: &mut [u8]| {
        frame_proxy::method(frame) != Some(frame_proxy::FLOW_OK) || count.fetch_add(1, Ordering::SeqCst) > 0
    };
    let mut options = options(&server);
    options.port = frame_proxy::start(&server, frame_proxy::forward(), Arc::new(drop_first_answer)).await;
    options.confirm_timeout = Duration::from_secs(1);
    // A queue with a limit is not consumed while one of its messages is being republished.
    let spec = queue("unanswered").max_length(MaxLength::Exact(10));
    let broker = open(options, &spec).await;
    publish(&broker, &spec.name, "a").await;
    lose_worker(&server, spec.name.as_str()).await;

    receive_one(&broker, &spec.name).await;
    assert!(answers.load(Ordering::SeqCst) > 0, "it was republished, and the answer was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_to_a_limited_queue_do_not_wait_for_each_others_confirms() {
    let server = servers::rabbitmq();
    let forward_confirms = Arc::new(AtomicBool::new(true));
    let forward = forward_confirms.clone();
    let confirms = move |frame: &mut [u8]| {
        frame_proxy::method(frame) != Some(frame_proxy::ACK) || forward.load(Ordering::SeqCst)
    };
    let mut options = options(&server);
    options.port = frame_proxy::start(&server, frame_proxy::forward(), Arc::new(confirms)).await;
    options.confirm_timeout = DEADLINE * 2;
    let spec = queue("unconfirmed").max_length(MaxLength::Exact(10));
    let broker = open(options, &spec).await;
    publish(&broker, &spec.name, "a").await;

    forward_confirms.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        let (broker, message) = (broker.clone(), Outgoing::to_queue(&spec.name, "b"));
        tokio::spawn(async move { broker.publish(vec![message]).await });
    }
    let (_connection, channel) = foreign_client(&server).await;
    eventually("all are in the queue", async || counts(&channel, spec.name.as_str()).await.0 == 4).await;
}

#[tokio::test]
async fn a_loss_between_two_delay_queues_counts_nothing() {
    let server = servers::rabbitmq();
    let spec = queue("hop").max_attempts(1);
    let broker = open(options(&server), &spec).await;
    publish_due(&server, &spec.name, Duration::from_secs(10)).await;
    lose_worker(&server, &format!("{}:due", spec.name)).await;
    let delivery = receive_one(&broker, &spec.name).await;
    assert_eq!((delivery.attempt, delivery.last_error), (1, None));
}

#[tokio::test]
async fn a_failed_republish_counts_nothing() {
    let server = servers::rabbitmq();
    let spec = queue("stays").max_attempts(1);
    let broker = open(options(&server), &spec).await;
    let (pattern, delay_queue) = (format!("^{}:wait:", spec.name), format!("{}:wait:1000", spec.name));
    let policy = RejectPolicy::set(&server, &pattern, &delay_queue).await;
    publish_due(&server, &spec.name, Duration::from_secs(3)).await;
    let delivery = receive_one(&broker, &spec.name).await;
    assert_eq!((delivery.attempt, delivery.last_error), (1, None));
    policy.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_lost_during_a_settle_counts_nothing() {
    let (proxy, options) = proxied(&servers::rabbitmq()).await;
    let spec = queue("amid").max_attempts(2);
    let broker = open(options, &spec).await;
    publish(&broker, &spec.name, "a").await;
    let first = receive_one(&broker, &spec.name).await;
    settle(&broker, first, Verdict::Retry { after: Duration::ZERO, error: "it rained".into() }).await;
    let second = receive_one(&broker, &spec.name).await;
    assert_eq!(second.attempt, 2);

    proxy.set(Mode::Silent);
    let (settler, until) = (broker.clone(), Timestamp::now());
    let settling = tokio::spawn(async move {
        settler.settle(vec![(second.receipt, Verdict::Defer { until })]).await.remove(0)
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!settling.is_finished(), "it is not confirmed");
    proxy.close_all();
    proxy.set(Mode::Up);
    let settled = settling.await.expect("the settling task");
    assert!(settled.is_err(), "{settled:?}");
    let again = receive_one(&broker, &spec.name).await;
    let error = again.last_error.map(|failure| failure.error);
    assert_eq!((again.attempt, error.as_deref()), (2, Some("it rained")), "the worker was never lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_other_arguments_after_a_reconnect_is_not_used_and_the_others_are() {
    let server = servers::rabbitmq();
    let (proxy, options) = proxied(&server).await;
    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    let (other, lost) = (queue("a-other"), queue("b-lost"));
    broker.declare(&[other.clone(), lost.clone()]).await.expect("the queues");

    proxy.set(Mode::Down);
    let (_connection, channel) = foreign_client(&server).await;
    for name in [&other.name, &lost.name] {
        foreign_delete(&channel, name.as_str()).await;
    }
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
    foreign_declare(&channel, other.name.as_str(), arguments).await;
    proxy.set(Mode::Up);

    let try_publish =
        async |queue: &QueueName| broker.publish(vec![Outgoing::to_queue(queue, "a")]).await.remove(0);
    eventually("the lost queue is declared again", async || try_publish(&lost.name).await.is_ok()).await;
    receive_one(&broker, &lost.name).await;
    let received = broker.receive(&other.name, 1, Duration::from_millis(200)).await;
    let Err(BrokerError::Unavailable { detail }) = received else {
        panic!("it is another queue: {received:?}")
    };
    assert!(detail.contains("x-max-length") && detail.contains(other.name.as_str()), "{detail}");
    let published = try_publish(&other.name).await;
    assert!(matches!(published, Err(PublishError::Unavailable { .. })), "{published:?}");

    foreign_delete(&channel, other.name.as_str()).await;
    eventually("it is declared again", async || try_publish(&other.name).await.is_ok()).await;
    receive_one(&broker, &other.name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_short_of_disk_can_be_drained_of_redelivered_messages() {
    let mut server = tokio::task::spawn_blocking(PrivateRabbitMq::start).await.unwrap();
    let mut options = options(&server.server());
    options.confirm_timeout = Duration::from_secs(2);
    options.connection_timeout = Duration::from_secs(1);
    let spec = queue("drained");
    let broker = open(options.clone(), &spec).await;
    publish_numbers(&broker, &spec.name, 20).await;
    drop(broker);
    server = tokio::task::spawn_blocking(move || {
        server.stop();
        server.restart_with_disk_alarm();
        server
    })
    .await
    .unwrap();
    let (lost_worker, channel) = foreign_client(&server.server()).await;
    for _ in 0..20 {
        foreign_get(&channel, spec.name.as_str()).await;
    }
    lost_worker.close(200, "gone".into()).await.expect("a close");

    let broker = open(options, &spec).await;
    let mut done = BTreeSet::new();
    eventually("all of them are finished", async || {
        let received = broker.receive(&spec.name, 5, Duration::from_millis(500)).await.unwrap_or_default();
        let bodies: Vec<_> = received.iter().map(|delivery| delivery.message.body.clone()).collect();
        let verdicts = received.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        let results = broker.settle(verdicts).await;
        done.extend(bodies.into_iter().zip(results).filter_map(|(body, result)| result.ok().map(|_| body)));
        done.len() == 20
    })
    .await;
    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, "b")]).await.remove(0);
    let Err(PublishError::Unavailable { detail }) = published else { panic!("no room: {published:?}") };
    assert!(detail.contains("short of memory or disk"), "{detail}");
}
