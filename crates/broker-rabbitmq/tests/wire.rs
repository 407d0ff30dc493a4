//! Interoperability: foreign clients on the same queues, their mistakes, and several processes on one queue.

mod support;

use crawlway_broker::{
    Aspect, Broker, BrokerError, DeadLetterFilter, DeadLetters, ExchangeName, MaxLength, Ordering, Outgoing,
    PublishError, QueueAdmin, QueueSpec, SettleError, SettleOutcome, TopicPattern, Verdict,
};
use crawlway_broker_rabbitmq::{ConnectError, Options, RabbitBroker};
use crawlway_testkit::servers;
use lapin::{
    BasicProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};
use support::{
    DEADLINE, counts, eventually, foreign_client, foreign_declare, foreign_delete, foreign_get,
    foreign_publish, frame_proxy, open, options, publish, publish_numbers, queue, receive_one, settle,
};

fn exchange() -> ExchangeName {
    ExchangeName::new(queue("x").name.as_str()).expect("an allowed name")
}

fn dead() -> Verdict {
    Verdict::Dead { reason: "hopeless".into() }
}

/// Two processes with the same queue.
async fn open_two(spec: &QueueSpec) -> (Arc<RabbitBroker>, Arc<RabbitBroker>) {
    let server = servers::rabbitmq();
    (open(options(&server), spec).await, open(options(&server), spec).await)
}

#[tokio::test]
async fn a_requeued_message_is_at_its_old_place_and_unchanged() {
    let server = servers::rabbitmq();
    let spec = queue("requeue").max_length(MaxLength::Exact(1));
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let name = spec.name.as_str();
    // Arguments that a foreign client derives from the contract: those of the limit and no other.
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    foreign_declare(&channel, name, arguments).await;

    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, "first").id("m-1")]).await;
    assert_eq!(published, [Ok(())]);
    let delivery = receive_one(&broker, &spec.name).await;
    publish(&broker, &spec.name, "second").await;
    assert_eq!(settle(&broker, delivery, Verdict::Requeue).await, SettleOutcome::Requeued);
    eventually("both are in the queue, above its limit", async || counts(&channel, name).await.0 == 2).await;
    let back = foreign_get(&channel, name).await;
    assert_eq!((&back.data[..], back.redelivered), (&b"first"[..], true));
    assert_eq!(back.properties.headers(), &None);
    assert_eq!(back.properties.message_id(), &Some("m-1".into()));
    broker.close().await.expect("the broker closes");
}

#[tokio::test]
async fn a_foreign_client_declares_the_same_queue_and_its_messages_are_processed() {
    let server = servers::rabbitmq();
    let spec = queue("plain");
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let name = spec.name.as_str();
    foreign_declare(&channel, name, FieldTable::default()).await;

    let properties = BasicProperties::default().with_content_type("application/json".into());
    foreign_publish(&channel, "", name, b"{}", properties).await;
    let first = receive_one(&broker, &spec.name).await;
    assert_eq!((&first.message.body[..], first.attempt), (&b"{}"[..], 1));
    let message = first.message.clone();
    settle(&broker, first, Verdict::Retry { after: Duration::ZERO, error: "it rained".into() }).await;
    let again = receive_one(&broker, &spec.name).await;
    assert_eq!((&again.message, again.attempt), (&message, 2), "the same message, id included");
    settle(&broker, again, dead()).await;
    let replayed = broker.replay(&spec.name, &DeadLetterFilter::all()).await.expect("a replay");
    assert_eq!(replayed.count, 1);
    broker.close().await.expect("the broker closes");
    let back = foreign_get(&channel, name).await;
    assert_eq!(
        back.properties.content_type(),
        &Some("application/json".into()),
        "copies keep the properties"
    );
}

#[tokio::test]
async fn invalid_utf8_does_not_cost_the_connection() {
    const NAME: &[u8] = b"LATIN";
    let server = servers::rabbitmq();
    let exchange = exchange();
    let spec = queue("latin").bind(exchange.clone(), TopicPattern::new("#").unwrap());
    let broker = open(options(&server), &spec).await;

    // A client that writes short strings in Latin-1.
    let to_latin1 = |frame: &mut [u8]| {
        while let Some(at) = frame.windows(NAME.len()).position(|bytes| bytes == NAME) {
            frame[at..at + NAME.len()].copy_from_slice(b"\xC4\xD6\xDC\xDF\xE9");
        }
        true
    };
    let mut through = server.clone();
    through.port = frame_proxy::start(&server, Arc::new(to_latin1), frame_proxy::forward()).await;
    let (_connection, channel) = foreign_client(&through).await;
    let mut headers = FieldTable::default();
    headers.insert("LATIN".into(), AMQPValue::LongInt(7));
    let plain = BasicProperties::default;
    let sent = [
        (spec.name.as_str(), plain().with_message_id("LATIN".into()).with_timestamp(1)),
        (spec.name.as_str(), plain().with_headers(headers)),
        (spec.name.as_str(), plain().with_correlation_id("LATIN".into()).with_content_type("LATIN".into())),
        ("LATIN", plain()),
        (spec.name.as_str(), plain().with_message_id("plain".into())),
    ];
    for (i, (key, properties)) in sent.into_iter().enumerate() {
        let exchange = if key == "LATIN" { exchange.as_str() } else { "" };
        foreign_publish(&channel, exchange, key, i.to_string().as_bytes(), properties).await;
    }

    let mut received = Vec::new();
    eventually("all are delivered", async || {
        received.extend(broker.receive(&spec.name, 10, Duration::from_millis(500)).await.unwrap_or_default());
        received.len() == 5
    })
    .await;
    let bodies: Vec<_> = received.iter().map(|delivery| delivery.message.body.as_ref()).collect();
    assert_eq!(bodies, [b"0", b"1", b"2", b"3", b"4"]);
    assert!(received.iter().all(|delivery| delivery.attempt == 1), "{received:?}");
    assert_eq!(received[0].message.id.as_str(), "?????");
    assert_eq!(received[1].message.headers.get("?????").map(String::as_str), Some("7"));
    let first = received.remove(0);
    let message = first.message.clone();
    settle(&broker, first, dead()).await;
    let page = broker.dead_letters(&spec.name, &DeadLetterFilter::all(), None, 10).await.expect("the page");
    assert_eq!(page.letters[0].message, message);
}

#[tokio::test]
async fn headers_that_fill_a_frame_do_not_cost_the_connection() {
    let server = servers::rabbitmq();
    let spec = queue("brim");
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let mut headers = FieldTable::default();
    headers.insert("huge".into(), AMQPValue::LongString(vec![b'x'; 130_000].into()));
    headers.insert("small".into(), AMQPValue::LongString("kept".into()));
    let properties = BasicProperties::default().with_headers(headers);
    foreign_publish(&channel, "", spec.name.as_str(), b"a", properties).await;

    let delivery = receive_one(&broker, &spec.name).await;
    assert_eq!(delivery.message.headers["huge"].len(), 130_000);
    let settled = settle(&broker, delivery, Verdict::Dead { reason: "e".repeat(2000) }).await;
    assert_eq!(settled, SettleOutcome::Dead);
    let page = broker.dead_letters(&spec.name, &DeadLetterFilter::all(), None, 10).await.expect("the page");
    let kept: Vec<_> = page.letters[0].message.headers.keys().map(String::as_str).collect();
    assert_eq!(kept, ["small"], "the largest is left out");
}

#[tokio::test]
async fn published_messages_are_plain_and_persistent() {
    let server = servers::rabbitmq();
    let spec = queue("ours");
    let broker = open(options(&server), &spec).await;
    let message = Outgoing::to_queue(&spec.name, "{}").id("item-1");
    assert_eq!(broker.publish(vec![message]).await, [Ok(())]);
    let (_connection, channel) = foreign_client(&server).await;
    let delivery = foreign_get(&channel, spec.name.as_str()).await;
    assert_eq!(delivery.properties.headers(), &None);
    assert_eq!(delivery.properties.delivery_mode(), &Some(2));
    assert_eq!(delivery.properties.message_id(), &Some("item-1".into()));
    assert_eq!(delivery.data, b"{}");
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_refused_with_the_difference() {
    let server = servers::rabbitmq();
    let broker = RabbitBroker::connect(options(&server)).await.expect("the server answers");
    let (_connection, channel) = foreign_client(&server).await;
    let spec = queue("other");
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
    foreign_declare(&channel, spec.name.as_str(), arguments).await;
    let Err(BrokerError::Mismatch { queue: named, difference }) =
        broker.declare(std::slice::from_ref(&spec)).await
    else {
        panic!("a queue with other arguments must not be used")
    };
    assert_eq!(named, spec.name);
    assert!(
        difference.contains("x-max-length is the value '5'")
            && difference.contains("none in the declaration"),
        "{difference}"
    );

    let spec = queue("short").max_length(MaxLength::Exact(5));
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue is declared");
    let longer = spec.clone().max_length(MaxLength::Exact(6));
    let error = broker.declare(&[longer]).await.expect_err("another limit").to_string();
    assert!(error.contains("x-max-length is '5' on the server and '6' in the declaration"), "{error}");
    let listed = broker.queues().await.expect("the list");
    assert_eq!(listed, [spec], "a refused spec is not listed");
}

#[tokio::test]
async fn unsupported_specs_are_refused_before_anything_is_declared() {
    let server = servers::rabbitmq();
    let broker = RabbitBroker::connect(options(&server)).await.expect("the server answers");
    for (spec, aspect) in [
        (queue("groups").ordering(Ordering::PerGroup), Aspect::OrderPerGroup),
        (queue("fifo").ordering(Ordering::Fifo), Aspect::OrderFifo),
        (queue("long").lease(Duration::from_secs(3600)), Aspect::Lease),
        (
            queue("tight").max_length(MaxLength::Approximate { limit: 5, slack: 1 }),
            Aspect::MaxLengthApproximate,
        ),
        (queue("amq.mine"), Aspect::Names),
    ] {
        let error = broker.declare(std::slice::from_ref(&spec)).await.expect_err("it is refused");
        assert!(matches!(&error, BrokerError::Refused { aspect: named, .. } if *named == aspect), "{error}");
        let (_connection, channel) = foreign_client(&server).await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(spec.name.as_str().into(), passive, FieldTable::default()).await;
        assert!(declared.is_err(), "`{}` must not exist", spec.name);
    }
}

#[tokio::test]
async fn unroutable_messages_of_a_batch_are_identified() {
    let server = servers::rabbitmq();
    let exchange = exchange();
    let spec = queue("bound").bind(exchange.clone(), TopicPattern::new("good.*").unwrap());
    let broker = open(options(&server), &spec).await;
    let topic = |i: usize| if i.is_multiple_of(3) { "bad" } else { "good.one" };
    let batch = (0..300).map(|i| Outgoing::to_topic(&exchange, topic(i), format!("{i}"))).collect();
    for (i, result) in broker.publish(batch).await.into_iter().enumerate() {
        let unroutable = PublishError::Unroutable { exchange: exchange.clone(), topic: "bad".into() };
        let expected = if topic(i) == "bad" { Err(unroutable) } else { Ok(()) };
        assert_eq!(result, expected, "message {i}");
    }
    assert_eq!(broker.depth(&spec.name).await.expect("the depth").ready, 200);
}

#[tokio::test]
async fn publishing_to_a_deleted_queue_is_an_error_until_it_is_declared() {
    let server = servers::rabbitmq();
    let spec = queue("deleted");
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    foreign_delete(&channel, spec.name.as_str()).await;
    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await.remove(0);
    let Err(PublishError::Unavailable { detail }) = published else { panic!("it is lost: {published:?}") };
    assert!(detail.contains("was deleted on the server"), "{detail}");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue is declared");
    publish(&broker, &spec.name, "a").await;
}

#[tokio::test]
async fn deleted_queues_are_declared_again() {
    let server = servers::rabbitmq();
    let spec = queue("remade");
    let name = &spec.name;
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let publish_eventually = async |body: &'static str| {
        eventually("a publish is confirmed", async || {
            broker.publish(vec![Outgoing::to_queue(name, body)]).await == [Ok(())]
        })
        .await;
    };
    publish_eventually("a").await;
    let first = receive_one(&broker, name).await;

    foreign_delete(&channel, &format!("{name}:due")).await;
    let retry = Verdict::Retry { after: Duration::ZERO, error: "it rained".into() };
    eventually("the retry is accepted", async || {
        let settled = broker.settle(vec![(first.receipt.clone(), retry.clone())]).await.remove(0);
        // Fenced if the deletion was noticed before and closed the channel: the message is redelivered.
        matches!(settled, Ok(_) | Err(SettleError::Fenced { .. }))
    })
    .await;
    let again = receive_one(&broker, name).await;
    assert_eq!(again.message, first.message);
    settle(&broker, again, Verdict::Done).await;

    foreign_delete(&channel, name.as_str()).await;
    publish_eventually("b").await;
    assert_eq!(&receive_one(&broker, name).await.message.body[..], b"b");

    foreign_delete(&channel, &format!("{name}:pause")).await;
    foreign_delete(&channel, name.as_str()).await;
    publish_eventually("c").await;
    assert_eq!(&receive_one(&broker, name).await.message.body[..], b"c");
    broker.pause(name).await.expect("the pause queue is declared again");
}

#[tokio::test]
async fn a_deleted_exchange_costs_one_publish() {
    let server = servers::rabbitmq();
    let exchange = exchange();
    let spec = queue("lost").bind(exchange.clone(), TopicPattern::new("#").unwrap());
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    channel.exchange_delete(exchange.as_str().into(), Default::default()).await.expect("a delete");
    let to_topic = async || broker.publish(vec![Outgoing::to_topic(&exchange, "t", "a")]).await.remove(0);
    let published = to_topic().await;
    assert!(matches!(published, Err(PublishError::Unconfirmed { .. })), "{published:?}");
    let published = to_topic().await;
    assert!(matches!(published, Err(PublishError::Unroutable { .. })), "{published:?}");
    publish(&broker, &spec.name, "b").await;
}

#[tokio::test]
async fn a_message_above_the_servers_limit_is_an_error_and_publishing_goes_on() {
    let spec = queue("large");
    let broker = open(Options { max_message: 1 << 30, ..options(&servers::rabbitmq()) }, &spec).await;
    let large = vec![0; (128 << 20) + 1];
    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, large).id("huge")]).await.remove(0);
    let Err(PublishError::TooLarge { id, size, limit }) = published else { panic!("{published:?}") };
    assert_eq!(id, "huge");
    assert!(size > limit, "{size} {limit}");
    publish(&broker, &spec.name, "b").await;
}

#[tokio::test]
async fn depth_includes_other_processes_through_the_management_api() {
    let spec = queue("held");
    let (worker, observer) = open_two(&spec).await;
    let without_management = Options { management_url: None, ..options(&servers::rabbitmq()) };
    let without_management = open(without_management, &spec).await;
    publish_numbers(&worker, &spec.name, 3).await;
    let mut leased = Vec::new();
    while leased.len() < 3 {
        leased.extend(worker.receive(&spec.name, 3, DEADLINE).await.expect("the messages"));
    }
    eventually("the other process's messages are counted", async || {
        observer.depth(&spec.name).await.expect("the depth").in_flight == 3
    })
    .await;
    assert_eq!(worker.depth(&spec.name).await.expect("the depth").in_flight, 3, "counted once");
    let depth = without_management.depth(&spec.name).await.expect("the depth");
    assert_eq!((depth.ready, depth.in_flight, depth.exact), (0, 0, false), "its own messages only");
}

#[tokio::test]
async fn a_pause_holds_in_other_processes() {
    let spec = queue("paused");
    let (one, other) = open_two(&spec).await;
    // Subscribes before the pause.
    assert!(other.receive(&spec.name, 1, Duration::from_millis(50)).await.expect("no error").is_empty());
    one.pause(&spec.name).await.expect("pausing");
    tokio::time::sleep(Duration::from_secs(2)).await;
    publish(&one, &spec.name, "a").await;
    let received = other.receive(&spec.name, 1, Duration::from_secs(2)).await.expect("no error");
    assert!(received.is_empty(), "{received:?}");
    one.resume(&spec.name).await.expect("resuming");
    let received = other.receive(&spec.name, 1, DEADLINE).await.expect("no error");
    assert_eq!(received.len(), 1);
}

#[tokio::test]
async fn an_idle_process_returns_its_prefetched_messages() {
    let spec = queue("idle");
    let (idle, busy) = open_two(&spec).await;
    publish_numbers(&idle, &spec.name, 10).await;
    receive_one(&idle, &spec.name).await;
    let mut received = Vec::new();
    eventually("the busy process gets the other nine", async || {
        received.extend(busy.receive(&spec.name, 10, Duration::from_millis(100)).await.expect("no error"));
        received.len() == 9
    })
    .await;
}

#[tokio::test]
async fn concurrent_scans_of_the_dead_letters_see_all_of_them() {
    let spec = queue("dead");
    let (one, other) = open_two(&spec).await;
    publish_numbers(&one, &spec.name, 20).await;
    for _ in 0..20 {
        let delivery = receive_one(&one, &spec.name).await;
        settle(&one, delivery, dead()).await;
    }
    let all = DeadLetterFilter::all();
    let scans = (0..10).map(|i| {
        let broker = if i % 2 == 0 { &one } else { &other };
        broker.dead_letters(&spec.name, &all, None, 100)
    });
    let pages = futures::future::join_all(scans).await;
    let counts = pages.into_iter().map(|page| page.expect("the page").letters.len());
    assert_eq!(counts.collect::<Vec<_>>(), [20; 10]);
}

#[tokio::test]
async fn connect_errors_tell_a_refused_login_from_an_unreachable_server() {
    let server = servers::rabbitmq();
    let wrong_password = Options { password: "wrong".into(), ..options(&server) };
    let error = RabbitBroker::connect(wrong_password).await.expect_err("the wrong password");
    assert!(matches!(error, ConnectError::LoginRefused { .. }), "{error}");
    let wrong_port = Options { port: 1, connection_timeout: Duration::from_millis(300), ..options(&server) };
    let error = RabbitBroker::connect(wrong_port).await.expect_err("no server");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("guest:guest"), "no password in it: {error}");
}
