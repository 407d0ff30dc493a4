//! Marks of what runs with nothing beside it: whom they count against, and that none is left behind.

mod support;

use crawlway_broker::{
    Broker, Cause, DeadFilter, Delivery, Outgoing, QueueName, QueueSpec, Timestamp, Verdict,
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::{
    proxy::Proxy,
    servers::{self, RabbitMq},
};
use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};
use support::{connect, management, options, queue, stranger, until};
use tokio::runtime::Runtime;

/// A handle whose runtime stands for its process: without it, nothing of the handle goes on, and nothing is
/// said goodbye to.
struct Process {
    broker: Arc<RabbitBroker>,
    runtime: Runtime,
}

impl Process {
    async fn start(options: Options, spec: &QueueSpec) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let broker = runtime.spawn(RabbitBroker::connect(options)).await.expect("the connecting task");
        let broker = Arc::new(broker.expect("the server answers"));
        broker.declare(std::slice::from_ref(spec)).await.expect("the queue");
        Self { broker, runtime }
    }

    fn kill(self) {
        self.runtime.shutdown_background();
    }
}

/// The marks of a queue that are on the server.
async fn marks(server: &RabbitMq, queue: &QueueName) -> Vec<String> {
    let path = format!("/api/queues/%2F?page=1&page_size=100&columns=name&name={queue}%3Aalone%3A");
    let answer = management(server, "GET", &path, "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let parts = answer.split('"').filter(|part| part.starts_with(&format!("{queue}:alone:")));
    parts.map(str::to_owned).collect()
}

async fn no_mark_is_left(server: &RabbitMq, queue: &QueueName, after: &str) {
    until(&format!("no mark is left after {after}"), async || marks(server, queue).await.is_empty()).await;
}

async fn take(broker: &RabbitBroker, queue: &QueueName) -> Delivery {
    let mut got = Vec::new();
    until("a message comes", async || {
        got.extend(broker.receive(queue, 1, Duration::from_millis(500)).await.unwrap_or_default());
        !got.is_empty()
    })
    .await;
    got.remove(0)
}

/// Takes the next message, says that nothing runs beside it, and sees its mark.
async fn take_alone(server: &RabbitMq, broker: &RabbitBroker, queue: &QueueName) -> (Delivery, String) {
    let delivery = take(broker, queue).await;
    assert_eq!(broker.alone(&delivery.receipt).await, Ok(()));
    assert_eq!(broker.alone(&delivery.receipt).await, Ok(()), "to say it twice changes nothing");
    let marks = marks(server, queue).await;
    assert_eq!(marks.len(), 1, "{marks:?}");
    (delivery, marks[0].clone())
}

async fn settle(broker: &RabbitBroker, delivery: Delivery, verdict: Verdict) {
    broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0).expect("it is settled");
}

async fn send(broker: &RabbitBroker, queue: &QueueName) {
    assert_eq!(broker.publish(vec![Outgoing::to_queue(queue, "a")]).await, [Ok(())]);
}

fn alive() -> [Verdict; 3] {
    [
        Verdict::Retry { after: Duration::ZERO, error: "it rained".into() },
        Verdict::Defer { until: Timestamp::now() },
        Verdict::Requeue,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_was_left_behind_counts_against_nothing() {
    let server = servers::rabbitmq();
    let (_connection, channel) = stranger(&server).await;
    for verdict in alive() {
        let spec = queue("stale").max_solo_crashes(1);
        let worker = Process::start(options(&server), &spec).await;
        send(&worker.broker, &spec.name).await;
        let (held, mark) = take_alone(&server, &worker.broker, &spec.name).await;
        settle(&worker.broker, held, verdict.clone()).await;
        no_mark_is_left(&server, &spec.name, "a settle").await;

        // As if it could not have been taken away.
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongLongInt(600_000));
        channel.queue_declare(mark.as_str().into(), durable, arguments).await.expect("a mark");
        let held = take(&worker.broker, &spec.name).await;
        worker.kill();

        let next = Process::start(options(&server), &spec).await;
        let again = take(&next.broker, &spec.name).await;
        assert_eq!(
            (again.attempt, again.losses),
            (held.attempt, 1),
            "suspect and no more, after {verdict:?}"
        );
        assert_eq!(marks(&server, &spec.name).await, [mark], "it was there all the time");
        settle(&next.broker, again, Verdict::Done).await;
        let dead = next.broker.dead_letters(&spec.name, &DeadFilter::all(), None, 10).await;
        assert!(dead.expect("the letters").letters.is_empty());
        next.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_what_ran_alone_its_mark_goes() {
    let server = servers::rabbitmq();
    let spec = queue("tidy").lease(Duration::from_secs(2)).max_attempts(100).max_solo_crashes(2);
    let name = &spec.name;
    let worker = Process::start(options(&server), &spec).await;
    send(&worker.broker, name).await;
    let (held, _) = take_alone(&server, &worker.broker, name).await;
    let depth = worker.broker.depth(name).await.expect("the depth");
    assert_eq!((depth.waiting(), depth.in_flight, depth.dead), (0, 1, 0), "a mark is no message");
    assert_eq!(worker.broker.purge(name).await, Ok(0), "nor is it thrown away");
    assert_eq!(marks(&server, name).await.len(), 1);
    settle(&worker.broker, held, Verdict::Requeue).await;
    no_mark_is_left(&server, name, "its first settle").await;
    for verdict in alive() {
        let (held, _) = take_alone(&server, &worker.broker, name).await;
        settle(&worker.broker, held, verdict).await;
        no_mark_is_left(&server, name, "a settle").await;
    }

    let (held, _) = take_alone(&server, &worker.broker, name).await;
    tokio::time::sleep(held.lease_until.since(Timestamp::now())).await;
    no_mark_is_left(&server, name, "the end of its lease").await;

    take_alone(&server, &worker.broker, name).await;
    worker.kill();
    let worker = Process::start(options(&server), &spec).await;
    let again = take(&worker.broker, name).await;
    assert_eq!(again.losses, 2, "by the lease and by the worker");
    no_mark_is_left(&server, name, "its first solo crash").await;
    settle(&worker.broker, again, Verdict::Requeue).await;
    take_alone(&server, &worker.broker, name).await;
    worker.kill();

    let broker = connect(&server).await;
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    until("it is dead", async || {
        let got = broker.receive(name, 1, Duration::from_millis(200)).await.expect("nothing");
        assert!(got.is_empty(), "it has taken two workers with it: {got:?}");
        broker.depth(name).await.expect("the depth").dead == 1
    })
    .await;
    no_mark_is_left(&server, name, "its end").await;
    let letters = broker.dead_letters(name, &DeadFilter::all(), None, 10).await.expect("the letters").letters;
    assert_eq!(letters[0].cause, Cause::WorkerLost);
    assert_eq!(letters[0].reason, "its worker was lost 2 times while it ran nothing else");

    for verdict in [Verdict::Done, Verdict::Dead { reason: "hopeless".into() }] {
        send(&broker, name).await;
        let (held, _) = take_alone(&server, &broker, name).await;
        settle(&broker, held, verdict).await;
        no_mark_is_left(&server, name, "its end").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_while_its_worker_lives_counts_nothing_there() {
    let server = servers::rabbitmq();
    let proxy = Proxy::before(format!("{}:{}", server.host, server.port)).await;
    let mut through = options(&server);
    through.port = proxy.address().port();
    let spec = queue("lived").max_solo_crashes(1);
    let worker = Process::start(through, &spec).await;
    send(&worker.broker, &spec.name).await;
    // From the queue itself, and then from beside it.
    for _ in 0..2 {
        let (held, _) = take_alone(&server, &worker.broker, &spec.name).await;
        proxy.cut();
        let again = take(&worker.broker, &spec.name).await;
        assert_eq!((again.attempt, again.losses), (held.attempt, 0), "the worker was never lost");
        no_mark_is_left(&server, &spec.name, "a lost connection").await;
        settle(&worker.broker, again, Verdict::Defer { until: Timestamp::now() }).await;
    }
    // It ran alone once, and is lost when it does not.
    take(&worker.broker, &spec.name).await;
    worker.kill();
    let next = Process::start(options(&server), &spec).await;
    assert_eq!(take(&next.broker, &spec.name).await.losses, 1, "suspect and no more");
    next.kill();
}
