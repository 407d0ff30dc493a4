//! What others see and do on the same server: plain queues, plain messages, and what they can spoil.

mod support;

use crawlway_broker::{
    Aspect, Broker, BrokerError, DeadFilter, ExchangeName, MaxLength, Outgoing, PublishError, SettleError,
    Settled, TopicPattern, Verdict,
};
use crawlway_broker_rabbitmq::{ConnectError, RabbitBroker};
use crawlway_testkit::servers;
use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};
use support::{DEADLINE, connect, meddler, options, queue, stranger, until};

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

fn passive() -> QueueDeclareOptions {
    QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() }
}

#[tokio::test]
async fn what_is_put_back_is_in_the_contract_queue_itself_as_it_was_for_anyone_to_take() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = queue("requeue").max_length(MaxLength::Exact(1));
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let name = spec.name.as_str();
    // With the limit's arguments and no other, which is what a stranger declares from the contract.
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    channel.queue_declare(name.into(), durable(), arguments).await.expect("a declare by the contract");

    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, "first").id("m-1")]).await;
    assert_eq!(published, [Ok(())]);
    let got = broker.receive(&spec.name, 1, DEADLINE).await.expect("the message").remove(0);
    let published = broker.publish(vec![Outgoing::to_queue(&spec.name, "second")]).await;
    assert_eq!(published, [Ok(())], "its place is free");
    let settled = broker.settle(vec![(got.receipt, Verdict::Requeue)]).await.remove(0);
    assert_eq!(settled, Ok(Settled::Requeued));
    until("both are in the queue, which is fuller than its limit", || {
        let look = channel.queue_declare(name.into(), passive(), FieldTable::default());
        async { look.await.expect("a look").message_count() == 2 }
    })
    .await;
    let back =
        channel.basic_get(name.into(), BasicGetOptions::default()).await.expect("a get").expect("a message");
    assert_eq!((&back.data[..], back.redelivered), (&b"first"[..], true), "at its old place");
    assert_eq!(back.properties.headers(), &None, "nothing was written on it");
    assert_eq!(back.properties.message_id(), &Some("m-1".into()));
    broker.close().await.expect("the broker closes");
}

#[tokio::test]
async fn a_strangers_plain_declare_does_not_clash_and_its_messages_are_taken() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = queue("plain");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let name = spec.name.as_str();
    channel.queue_declare(name.into(), durable(), FieldTable::default()).await.expect("a plain declare");

    let properties = BasicProperties::default().with_content_type("application/json".into());
    let publish =
        channel.basic_publish("".into(), name.into(), BasicPublishOptions::default(), b"{}", properties);
    publish.await.expect("a plain publish").await.expect("no confirm asked for");
    let got = broker.receive(&spec.name, 1, DEADLINE).await.expect("the message").remove(0);
    assert_eq!(&got.message.body[..], b"{}");
    assert_eq!(got.attempt, 1);
    let retry = Verdict::Retry { after: Duration::ZERO, error: "it rained".into() };
    broker.settle(vec![(got.receipt, retry)]).await.remove(0).expect("a retry");
    let again = broker.receive(&spec.name, 1, DEADLINE).await.expect("the retry").remove(0);
    assert_eq!((&again.message, again.attempt), (&got.message, 2), "the same message, id included");
    broker
        .settle(vec![(again.receipt, Verdict::Dead { reason: "hopeless".into() })])
        .await
        .remove(0)
        .expect("dead");
    let replayed = broker.replay(&spec.name, &DeadFilter::all()).await.expect("a replay");
    assert_eq!(replayed.count, 1);
    broker.close().await.expect("the broker closes");
    let back =
        channel.basic_get(name.into(), BasicGetOptions::default()).await.expect("a get").expect("a message");
    assert_eq!(
        back.properties.content_type(),
        &Some("application/json".into()),
        "its properties went all the way"
    );
}

#[tokio::test]
async fn names_that_are_not_utf8_cost_nobody_the_connection() {
    const NAME: &[u8] = b"LATIN";
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let exchange = ExchangeName::new(queue("x").name.as_str()).unwrap();
    let spec = queue("latin").bind(exchange.clone(), TopicPattern::new("#").unwrap());
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");

    // A client that writes names in another character set.
    let other_set = |frame: &mut [u8]| {
        while let Some(at) = frame.windows(NAME.len()).position(|bytes| bytes == NAME) {
            frame[at..at + NAME.len()].copy_from_slice(b"\xC4\xD6\xDC\xDF\xE9");
        }
        true
    };
    let mut through = server.clone();
    through.port = meddler::before(&server, Arc::new(other_set), Arc::new(|_: &mut [u8]| true)).await;
    let (_connection, channel) = stranger(&through).await;
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
        let body = i.to_string();
        let options = BasicPublishOptions::default();
        let publish =
            channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties);
        publish.await.expect("a publish").await.expect("no confirm asked for");
    }

    let mut got = Vec::new();
    until("all of them come", async || {
        got.extend(broker.receive(&spec.name, 10, Duration::from_millis(500)).await.unwrap_or_default());
        got.len() == 5
    })
    .await;
    let bodies: Vec<_> = got.iter().map(|delivery| delivery.message.body.as_ref()).collect();
    assert_eq!(bodies, [b"0", b"1", b"2", b"3", b"4"]);
    assert!(got.iter().all(|delivery| delivery.attempt == 1), "at once: {got:?}");
    assert_eq!(got[0].message.id.as_str(), "?????");
    assert_eq!(got[1].message.headers.get("?????").map(String::as_str), Some("7"));
    let first = got.remove(0);
    let dead = Verdict::Dead { reason: "not a page".into() };
    broker.settle(vec![(first.receipt, dead)]).await.remove(0).expect("dead");
    let letters =
        broker.dead_letters(&spec.name, &DeadFilter::all(), None, 10).await.expect("the letters").letters;
    assert_eq!(letters[0].message, first.message, "it is a message like any other");
}

#[tokio::test]
async fn a_strangers_headers_that_fill_a_frame_do_not_cost_the_connection() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = queue("brim");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let mut headers = FieldTable::default();
    headers.insert("huge".into(), AMQPValue::LongString(vec![b'x'; 130_000].into()));
    headers.insert("small".into(), AMQPValue::LongString("kept".into()));
    let properties = BasicProperties::default().with_headers(headers);
    let options = BasicPublishOptions::default();
    let publish = channel.basic_publish("".into(), spec.name.as_str().into(), options, b"a", properties);
    publish.await.expect("a publish").await.expect("no confirm asked for");

    let got = broker.receive(&spec.name, 1, DEADLINE).await.expect("the message").remove(0);
    assert_eq!(got.message.headers["huge"].len(), 130_000, "it is handed out whole");
    let dead = Verdict::Dead { reason: "e".repeat(2000) };
    let settled = broker.settle(vec![(got.receipt, dead)]).await.remove(0);
    assert_eq!(settled, Ok(Settled::Dead), "the copy is taken, and the connection lives");
    let page = broker.dead_letters(&spec.name, &DeadFilter::all(), None, 10).await.expect("the letters");
    let kept: Vec<_> = page.letters[0].message.headers.keys().map(String::as_str).collect();
    assert_eq!(kept, ["small"], "without what does not fit");
}

#[tokio::test]
async fn our_messages_are_plain_and_persistent() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = queue("ours");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let sent = Outgoing::to_queue(&spec.name, "{}").id("item-1");
    assert_eq!(broker.publish(vec![sent]).await, [Ok(())]);
    let (_connection, channel) = stranger(&server).await;
    let got = channel.basic_get(spec.name.as_str().into(), BasicGetOptions::default()).await.expect("a get");
    let got = got.expect("the message");
    assert_eq!(got.properties.headers(), &None, "nothing of ours");
    assert_eq!(got.properties.delivery_mode(), &Some(2));
    assert_eq!(got.properties.message_id(), &Some("item-1".into()));
    assert_eq!(got.data, b"{}");
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_refused_with_the_difference() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let (_connection, channel) = stranger(&server).await;
    let spec = queue("other");
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
    channel.queue_declare(spec.name.as_str().into(), durable(), arguments).await.expect("their queue");
    let Err(BrokerError::Mismatch { queue: named, difference }) =
        broker.declare(std::slice::from_ref(&spec)).await
    else {
        panic!("a queue that exists otherwise must not be used")
    };
    assert_eq!(named, spec.name);
    assert!(
        difference.contains("x-max-length is the value '5'") && difference.contains("asked for was none"),
        "{difference}"
    );

    let spec = queue("short").max_length(MaxLength::Exact(5));
    broker.declare(std::slice::from_ref(&spec)).await.expect("our queue");
    let longer = spec.clone().max_length(MaxLength::Exact(6));
    let error = broker.declare(&[longer]).await.expect_err("another limit").to_string();
    assert!(error.contains("x-max-length is '5' there, asked for was '6'"), "{error}");
    let listed = broker.queues().await.expect("the list");
    assert_eq!(listed, [spec], "only what was declared is known, and as it was");
}

#[tokio::test]
async fn what_the_server_cannot_honour_is_refused_before_anything_is_made() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    for (spec, aspect) in [
        (queue("groups").groups(), Aspect::Groups),
        (queue("long").lease(Duration::from_secs(3600)), Aspect::Lease),
        (queue("tight").max_length(MaxLength::Approximate { limit: 5, slack: 1 }), Aspect::LimitApproximate),
        (queue("amq.mine"), Aspect::Names),
    ] {
        let error = broker.declare(std::slice::from_ref(&spec)).await.expect_err("it cannot be honoured");
        assert!(matches!(&error, BrokerError::Refused { aspect: named, .. } if *named == aspect), "{error}");
        let (_connection, channel) = stranger(&server).await;
        let there = channel.queue_declare(spec.name.as_str().into(), passive(), FieldTable::default()).await;
        assert!(there.is_err(), "`{}` must not exist", spec.name);
    }
}

#[tokio::test]
async fn many_unroutable_messages_among_others_are_told_apart() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let exchange = ExchangeName::new(queue("x").name.as_str()).unwrap();
    let spec = queue("bound").bind(exchange.clone(), TopicPattern::new("good.*").unwrap());
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let topic = |i: usize| if i.is_multiple_of(3) { "bad" } else { "good.one" };
    let batch = (0..300).map(|i| Outgoing::to_topic(&exchange, topic(i), format!("{i}"))).collect();
    for (i, outcome) in broker.publish(batch).await.into_iter().enumerate() {
        let unroutable = PublishError::Unroutable { exchange: exchange.clone(), topic: "bad".into() };
        let expected = if topic(i) == "bad" { Err(unroutable) } else { Ok(()) };
        assert_eq!(outcome, expected, "message {i}");
    }
    assert_eq!(broker.depth(&spec.name).await.expect("the depth").ready, 200);
}

#[tokio::test]
async fn a_queue_that_somebody_deleted_is_an_error_and_can_be_declared_again() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = queue("deleted");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    channel
        .queue_delete(spec.name.as_str().into(), QueueDeleteOptions::default())
        .await
        .expect("their delete");
    let outcome = broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await.remove(0);
    let Err(PublishError::Unavailable { detail }) = outcome else { panic!("nobody has it: {outcome:?}") };
    assert!(detail.contains("was deleted on the server"), "{detail}");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue again");
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await, [Ok(())]);
}

#[tokio::test]
async fn queues_that_somebody_deletes_are_made_again_by_who_uses_them() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let (_connection, channel) = stranger(&server).await;
    let delete = async |name: String| {
        channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.expect("their delete");
    };
    let spec = queue("remade");
    let name = &spec.name;
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let next = async |what: &str| {
        let mut got = Vec::new();
        until(what, async || {
            got.extend(broker.receive(name, 1, Duration::from_millis(200)).await.unwrap_or_default());
            !got.is_empty()
        })
        .await;
        got.remove(0)
    };
    let publish = async |body: &'static str| {
        until("a publish is taken", async || {
            broker.publish(vec![Outgoing::to_queue(name, body)]).await == [Ok(())]
        })
        .await;
    };
    publish("a").await;
    let first = next("what was there before").await;

    delete(format!("{name}:due")).await;
    let retry = Verdict::Retry { after: Duration::ZERO, error: "it rained".into() };
    until("the retry is taken", async || {
        let answer = broker.settle(vec![(first.receipt.clone(), retry.clone())]).await.remove(0);
        // Where the loss was noticed before, and the channel with it, the message is back in its queue.
        matches!(answer, Ok(_) | Err(SettleError::Fenced { .. }))
    })
    .await;
    let again = next("the retry, though nothing was where it goes").await;
    assert_eq!(again.message, first.message);
    broker.settle(vec![(again.receipt, Verdict::Done)]).await.remove(0).expect("done");

    delete(name.to_string()).await;
    publish("b").await;
    assert_eq!(&next("what is in the new queue").await.message.body[..], b"b");

    delete(format!("{name}:pause")).await;
    delete(name.to_string()).await;
    publish("c").await;
    assert_eq!(&next("what is in the newest queue").await.message.body[..], b"c");
    broker.pause(name).await.expect("there is something to pause again");
}

#[tokio::test]
async fn an_exchange_that_somebody_deleted_costs_one_publish() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let exchange = ExchangeName::new(queue("x").name.as_str()).unwrap();
    let spec = queue("lost").bind(exchange.clone(), TopicPattern::new("#").unwrap());
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    channel.exchange_delete(exchange.as_str().into(), Default::default()).await.expect("their delete");
    let publish = || async { broker.publish(vec![Outgoing::to_topic(&exchange, "t", "a")]).await.remove(0) };
    let outcome = publish().await;
    assert!(matches!(outcome, Err(PublishError::Unknown { .. })), "the server did not say: {outcome:?}");
    let outcome = publish().await;
    assert!(matches!(outcome, Err(PublishError::Unroutable { .. })), "nobody is bound: {outcome:?}");
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "b")]).await, [Ok(())], "all else goes on");
}

#[tokio::test]
async fn a_message_too_large_for_the_server_is_named_and_its_neighbours_are_published_again() {
    let server = servers::rabbitmq();
    let mut generous = options(&server);
    generous.max_message = 1 << 30;
    let broker = RabbitBroker::connect(generous).await.expect("the server answers");
    let spec = queue("large");
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let large = vec![0; (128 << 20) + 1];
    let outcome = broker.publish(vec![Outgoing::to_queue(&spec.name, large).id("huge")]).await.remove(0);
    match outcome {
        Err(PublishError::TooLarge { id, size, limit }) => {
            assert_eq!(id, "huge");
            assert!(size > limit, "{size} {limit}");
        }
        other => panic!("the server takes no such message: {other:?}"),
    }
    assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, "b")]).await, [Ok(())], "all else goes on");
}

#[tokio::test]
async fn what_another_process_holds_is_seen_through_the_management_api_and_without_it_depths_still_work() {
    let server = servers::rabbitmq();
    let spec = queue("held");
    let (holder, looker) = (connect(&server).await, connect(&server).await);
    let mut without = options(&server);
    without.management = None;
    let alone = RabbitBroker::connect(without).await.expect("the server answers");
    for broker in [&*holder, &*looker, &alone] {
        broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    }
    let batch = (0..3).map(|i| Outgoing::to_queue(&spec.name, format!("{i}"))).collect();
    assert!(holder.publish(batch).await.iter().all(Result::is_ok));
    let mut held = Vec::new();
    while held.len() < 3 {
        held.extend(holder.receive(&spec.name, 3, DEADLINE).await.expect("the messages"));
    }
    until("the other process's share is seen", || async {
        looker.depth(&spec.name).await.expect("the depth").in_flight == 3
    })
    .await;
    assert_eq!(
        holder.depth(&spec.name).await.expect("the depth").in_flight,
        3,
        "one's own are not counted twice"
    );
    let depth = alone.depth(&spec.name).await.expect("the depth without a management API");
    assert_eq!((depth.ready, depth.in_flight, depth.exact), (0, 0, false), "its own share only");
}

#[tokio::test]
async fn a_pause_is_noticed_by_other_processes() {
    let server = servers::rabbitmq();
    let spec = queue("paused");
    let (one, other) = (connect(&server).await, connect(&server).await);
    for broker in [&one, &other] {
        broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    }
    // So that it is consumed when the pause comes.
    assert!(other.receive(&spec.name, 1, Duration::from_millis(50)).await.expect("nothing yet").is_empty());
    one.pause(&spec.name).await.expect("pausing");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(one.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await, [Ok(())]);
    let got =
        other.receive(&spec.name, 1, Duration::from_secs(2)).await.expect("receiving while it is paused");
    assert!(got.is_empty(), "the other process heeds the pause: {got:?}");
    one.resume(&spec.name).await.expect("resuming");
    let got = other.receive(&spec.name, 1, DEADLINE).await.expect("receiving after it");
    assert_eq!(got.len(), 1, "and its end");
}

#[tokio::test]
async fn what_an_idle_process_has_prefetched_goes_to_others() {
    let server = servers::rabbitmq();
    let spec = queue("idle");
    let (idle, busy) = (connect(&server).await, connect(&server).await);
    for broker in [&idle, &busy] {
        broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    }
    let batch = (0..10).map(|i| Outgoing::to_queue(&spec.name, format!("{i}"))).collect();
    assert!(idle.publish(batch).await.iter().all(Result::is_ok));
    let first = idle.receive(&spec.name, 1, DEADLINE).await.expect("one of them");
    assert_eq!(first.len(), 1);
    let others = std::cell::RefCell::new(Vec::new());
    until("the other nine come to who asks for them", || async {
        let got = busy.receive(&spec.name, 10, Duration::from_millis(100)).await.expect("receiving");
        others.borrow_mut().extend(got);
        others.borrow().len() == 9
    })
    .await;
}

#[tokio::test]
async fn one_process_at_a_time_goes_through_the_dead() {
    let server = servers::rabbitmq();
    let spec = queue("graves");
    let (one, other) = (connect(&server).await, connect(&server).await);
    for broker in [&one, &other] {
        broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    }
    for i in 0..20 {
        assert_eq!(one.publish(vec![Outgoing::to_queue(&spec.name, format!("{i}"))]).await, [Ok(())]);
        let got = one.receive(&spec.name, 1, DEADLINE).await.expect("it").remove(0);
        one.settle(vec![(got.receipt, Verdict::Dead { reason: "hopeless".into() })])
            .await
            .remove(0)
            .expect("dead");
    }
    let all = DeadFilter::all();
    let readers = (0..10).map(|i| {
        let (broker, name, all) = (if i % 2 == 0 { &one } else { &other }, &spec.name, &all);
        async move { broker.dead_letters(name, all, None, 100).await.expect("the letters").letters.len() }
    });
    assert_eq!(
        futures::future::join_all(readers).await,
        [20; 10],
        "nobody sees a letter missing that another reads"
    );
}

#[tokio::test]
async fn who_is_not_let_in_or_finds_nobody_is_told_so() {
    let server = servers::rabbitmq();
    let mut wrong = options(&server);
    wrong.password = "wrong".into();
    let error = RabbitBroker::connect(wrong).await.expect_err("the wrong password");
    assert!(matches!(error, ConnectError::NotAllowed { .. }), "{error}");
    let mut nobody = options(&server);
    nobody.port = 1;
    nobody.patience = Duration::from_millis(300);
    let error = RabbitBroker::connect(nobody).await.expect_err("nobody is there");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("guest:guest"), "no password in it: {error}");
}
