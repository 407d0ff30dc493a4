//! What is lost when servers are restarted and killed, and connections dropped, reset, delayed and left half open: nothing.

mod support;

use crawlway_broker::{Broker, BrokerError, Delivery, MaxLength, Outgoing, PublishError, QueueName, Verdict};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::{
    private_rabbitmq::PrivateRabbitMq,
    proxy::{Mode, Proxy},
    servers::{self, RabbitMq},
};
use lapin::{
    options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use support::{
    DEADLINE, due_in, finish_all, meddler, options, passed_by_a_lost_worker, publish_all, queue, stranger,
    until,
};

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("item-{i}")).collect()
}

async fn before(server: &RabbitMq) -> Proxy {
    Proxy::before(format!("{}:{}", server.host, server.port)).await
}

/// Publishers and consumers at work on a queue, on a handle each.
struct Traffic {
    expected: BTreeSet<String>,
    seen: Arc<Mutex<BTreeSet<String>>>,
    publisher: tokio::task::JoinHandle<()>,
    consumer: tokio::task::JoinHandle<()>,
}

impl Traffic {
    async fn start(options: &Options, queue: &QueueName, count: usize) -> Self {
        let connect = || async {
            let broker = RabbitBroker::connect(options.clone()).await.expect("the server answers");
            let spec = crawlway_broker::QueueSpec::new(queue.clone()).max_attempts(1000);
            broker.declare(&[spec]).await.expect("the queue");
            Arc::new(broker)
        };
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let publisher = tokio::spawn(publish_all(connect().await, queue.clone(), ids(count)));
        let consumer = tokio::spawn(finish_all(connect().await, queue.clone(), seen.clone()));
        Self { expected: ids(count).into_iter().collect(), seen, publisher, consumer }
    }

    fn seen(&self) -> usize {
        self.seen.lock().expect("no task panicked").len()
    }

    /// Waits until so many were finished, which shows that it goes on.
    async fn reaches(&self, count: usize) {
        until(&format!("{count} are finished"), || async { self.seen() >= count }).await;
    }

    /// Waits for the end and sees that each was finished.
    async fn loses_nothing(self) {
        tokio::time::timeout(DEADLINE, self.publisher)
            .await
            .expect("publishers end")
            .expect("the publishing task");
        until("all are finished", || async {
            self.seen.lock().expect("no task panicked").len() >= self.expected.len()
        })
        .await;
        self.consumer.abort();
        assert_eq!(*self.seen.lock().expect("no task panicked"), self.expected, "each of them, and no other");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_and_kills_of_the_server_amid_ten_thousand_messages_lose_none() {
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
            server.start_again();
            server
        })
        .await
        .unwrap();
    }
    traffic.loses_nothing().await;
}

/// Breaks the network in some way, again and again while messages flow.
async fn survives(stem: &str, fault: impl AsyncFn(&Proxy)) {
    let server = servers::rabbitmq();
    let proxy = before(&server).await;
    let queue = queue(stem).name;
    let mut options = options(&server);
    options.port = proxy.address().port();
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
    survives("dropped", async |proxy| proxy.cut()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_connections_lose_nothing() {
    survives("reset", async |proxy| proxy.reset()).await;
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
        // Longer than the heartbeats allow, so that both sides give up on the other.
        tokio::time::sleep(Duration::from_secs(6)).await;
        proxy.set(Mode::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_stay_silent_for_ever_lose_nothing() {
    survives("stuck", async |proxy| {
        proxy.set(Mode::Stuck);
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.set(Mode::Up);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_said_to_be_and_comes_back() {
    let server = servers::rabbitmq();
    let proxy = before(&server).await;
    let mut options = options(&server);
    options.port = proxy.address().port();
    options.patience = Duration::from_millis(200);
    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    let spec = queue("away");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let message = || vec![crawlway_broker::Outgoing::to_queue(&spec.name, "a")];
    assert_eq!(broker.publish(message()).await, [Ok(())]);
    let held = broker.receive(&spec.name, 1, DEADLINE).await.expect("the message").remove(0);
    assert_eq!(broker.reachable(), Ok(()));

    proxy.set(Mode::Down);
    until("the loss is noticed", || async { broker.depth(&spec.name).await.is_err() }).await;
    let away = broker.reachable().expect_err("it is away").to_string();
    assert!(away.contains("is not connected"), "{away}");
    let outcome = broker.publish(message()).await.remove(0);
    assert!(outcome.as_ref().is_err_and(|error| error.is_transient()), "it is away: {outcome:?}");
    let received = broker.receive(&spec.name, 1, Duration::from_millis(100)).await;
    assert!(received.is_err(), "nothing can come: {received:?}");
    let fenced = broker.settle(vec![(held.receipt.clone(), Verdict::Done)]).await.remove(0);
    assert_eq!(fenced, Err(crawlway_broker::SettleError::Fenced { queue: spec.name.clone() }));

    proxy.set(Mode::Up);
    until("it is back", || async { broker.publish(message()).await == [Ok(())] }).await;
    assert_eq!(broker.reachable(), Ok(()));
    let mut again = Vec::new();
    while again.len() < 2 {
        again.extend(broker.receive(&spec.name, 10, Duration::from_secs(1)).await.unwrap_or_default());
    }
    assert!(again.iter().any(|delivery| delivery.message.id == held.message.id), "what was held comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_is_never_answered_holds_up_nothing() {
    let server = servers::rabbitmq();
    let swallowed = Arc::new(AtomicUsize::new(0));
    let count = swallowed.clone();
    let first_answer = move |frame: &mut [u8]| {
        meddler::method(frame) != Some(meddler::FLOW_OK) || count.fetch_add(1, Ordering::SeqCst) > 0
    };
    let mut options = options(&server);
    options.port = meddler::before(&server, Arc::new(|_: &mut [u8]| true), Arc::new(first_answer)).await;
    options.confirm_timeout = Duration::from_secs(1);
    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    // Nothing at all is taken from a queue with a limit while one of its messages is on its way.
    let spec = queue("unanswered").max_length(MaxLength::Exact(10));
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await, [Ok(())]);
    passed_by_a_lost_worker(&server, spec.name.as_str()).await;

    one_of(&broker, &spec.name).await;
    assert!(swallowed.load(Ordering::SeqCst) > 0, "it was moved, and the answer was swallowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_to_a_queue_with_a_limit_do_not_wait_for_each_others_confirms() {
    let server = servers::rabbitmq();
    let confirms_pass = Arc::new(AtomicBool::new(true));
    let pass = confirms_pass.clone();
    let confirms =
        move |frame: &mut [u8]| meddler::method(frame) != Some(meddler::ACK) || pass.load(Ordering::SeqCst);
    let mut options = options(&server);
    options.port = meddler::before(&server, Arc::new(|_: &mut [u8]| true), Arc::new(confirms)).await;
    // Longer than the test waits for anything.
    options.confirm_timeout = DEADLINE * 2;
    let broker = Arc::new(RabbitBroker::connect(options).await.expect("the server answers"));
    let spec = queue("unconfirmed").max_length(MaxLength::Exact(10));
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await, [Ok(())]);

    confirms_pass.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        let (broker, message) = (broker.clone(), Outgoing::to_queue(&spec.name, "b"));
        tokio::spawn(async move { broker.publish(vec![message]).await });
    }
    let (_connection, channel) = stranger(&server).await;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    until("all are at the server", || async {
        let declared = channel.queue_declare(spec.name.as_str().into(), passive, FieldTable::default());
        declared.await.expect("the queue").message_count() == 4
    })
    .await;
}

/// Receives from a queue until something comes.
async fn one_of(broker: &RabbitBroker, queue: &QueueName) -> Delivery {
    let got = std::cell::RefCell::new(Vec::new());
    until("a message comes", || async {
        let some = broker.receive(queue, 1, Duration::from_millis(500)).await.unwrap_or_default();
        got.borrow_mut().extend(some);
        !got.borrow().is_empty()
    })
    .await;
    got.into_inner().remove(0)
}

#[tokio::test]
async fn what_is_lost_on_its_way_to_the_next_tier_counts_nothing() {
    let server = servers::rabbitmq();
    let broker = RabbitBroker::connect(options(&server)).await.expect("the server answers");
    let spec = queue("hop").max_attempts(1);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    due_in(&server, &spec.name, Duration::from_secs(10)).await;
    passed_by_a_lost_worker(&server, &format!("{}:due", spec.name)).await;
    let got = one_of(&broker, &spec.name).await;
    assert_eq!((got.attempt, got.last_error), (1, None), "nobody had it before its time");
}

#[tokio::test]
async fn what_cannot_be_moved_on_counts_nothing() {
    let server = servers::rabbitmq();
    let broker = RabbitBroker::connect(options(&server)).await.expect("the server answers");
    let spec = queue("stays").max_attempts(1);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let tiers =
        support::full(&server, &format!("^{}:wait:", spec.name), &format!("{}:wait:1000", spec.name)).await;
    due_in(&server, &spec.name, Duration::from_secs(3)).await;
    let got = one_of(&broker, &spec.name).await;
    assert_eq!((got.attempt, got.last_error), (1, None), "it was given back, and nobody had it");
    tiers.lift().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_amid_a_settle_counts_nothing() {
    let server = servers::rabbitmq();
    let proxy = before(&server).await;
    let mut options = options(&server);
    options.port = proxy.address().port();
    let broker = Arc::new(RabbitBroker::connect(options).await.expect("the server answers"));
    let spec = queue("amid").max_attempts(2);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await, [Ok(())]);
    let first = one_of(&broker, &spec.name).await;
    let retry = Verdict::Retry { after: Duration::ZERO, error: "it rained".into() };
    broker.settle(vec![(first.receipt, retry)]).await.remove(0).expect("a retry");
    let second = one_of(&broker, &spec.name).await;
    assert_eq!(second.attempt, 2);

    proxy.set(Mode::Silent);
    let (settler, until) = (broker.clone(), crawlway_broker::Timestamp::now());
    let settling = tokio::spawn(async move {
        settler.settle(vec![(second.receipt, Verdict::Defer { until })]).await.remove(0)
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!settling.is_finished(), "nobody has confirmed it");
    proxy.cut();
    proxy.set(Mode::Up);
    let answer = settling.await.expect("the settling task");
    assert!(answer.is_err(), "it was not settled: {answer:?}");
    let again = one_of(&broker, &spec.name).await;
    let error = again.last_error.map(|failure| failure.error);
    assert_eq!((again.attempt, error.as_deref()), (2, Some("it rained")), "the worker was never lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_comes_back_otherwise_is_not_used_and_the_others_are() {
    let server = servers::rabbitmq();
    let proxy = before(&server).await;
    let mut options = options(&server);
    options.port = proxy.address().port();
    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    let (other, lost) = (queue("a-other"), queue("b-lost"));
    broker.declare(&[other.clone(), lost.clone()]).await.expect("the queues");

    proxy.set(Mode::Down);
    let (_connection, channel) = stranger(&server).await;
    for name in [&other.name, &lost.name] {
        channel
            .queue_delete(name.as_str().into(), QueueDeleteOptions::default())
            .await
            .expect("their delete");
    }
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(other.name.as_str().into(), durable, arguments).await.expect("their queue");
    proxy.set(Mode::Up);

    let publish =
        async |queue: &QueueName| broker.publish(vec![Outgoing::to_queue(queue, "a")]).await.remove(0);
    until("the queue that was lost is there again", async || publish(&lost.name).await.is_ok()).await;
    one_of(&broker, &lost.name).await;
    let received = broker.receive(&other.name, 1, Duration::from_millis(200)).await;
    let Err(BrokerError::Unavailable { detail }) = received else {
        panic!("it is another queue: {received:?}")
    };
    assert!(detail.contains("x-max-length") && detail.contains(other.name.as_str()), "{detail}");
    let published = publish(&other.name).await;
    assert!(
        matches!(published, Err(PublishError::Unavailable { .. })),
        "nor is it published to: {published:?}"
    );

    channel
        .queue_delete(other.name.as_str().into(), QueueDeleteOptions::default())
        .await
        .expect("their delete");
    until("it is made again", async || publish(&other.name).await.is_ok()).await;
    one_of(&broker, &other.name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_short_of_disk_is_drained_of_what_lost_workers_had() {
    let mut server = tokio::task::spawn_blocking(PrivateRabbitMq::start).await.unwrap();
    let mut options = options(&server.server());
    options.confirm_timeout = Duration::from_secs(2);
    options.patience = Duration::from_secs(1);
    let spec = queue("drained");
    let broker = RabbitBroker::connect(options.clone()).await.expect("the server answers");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let batch = (0..20).map(|i| Outgoing::to_queue(&spec.name, format!("{i}"))).collect();
    assert!(broker.publish(batch).await.iter().all(Result::is_ok));
    drop(broker);
    server = tokio::task::spawn_blocking(move || {
        server.stop();
        server.start_again_short_of_disk();
        server
    })
    .await
    .unwrap();
    // A worker that is lost with all of them.
    let (connection, channel) = stranger(&server.server()).await;
    for _ in 0..20 {
        let got =
            channel.basic_get(spec.name.as_str().into(), BasicGetOptions::default()).await.expect("a get");
        got.expect("one of them");
    }
    connection.close(200, "gone".into()).await.expect("a goodbye");

    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let mut done = BTreeSet::new();
    until("all of them are finished", async || {
        let got = broker.receive(&spec.name, 5, Duration::from_millis(500)).await.unwrap_or_default();
        let bodies: Vec<_> = got.iter().map(|delivery| delivery.message.body.clone()).collect();
        let verdicts = got.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        let answers = broker.settle(verdicts).await;
        done.extend(bodies.into_iter().zip(answers).filter_map(|(body, answer)| answer.ok().map(|_| body)));
        done.len() == 20
    })
    .await;
    let outcome = broker.publish(vec![Outgoing::to_queue(&spec.name, "b")]).await.remove(0);
    let Err(PublishError::Unavailable { detail }) = outcome else { panic!("there is no room: {outcome:?}") };
    assert!(detail.contains("short of memory or disk"), "{detail}");
}
