//! Cases: declaring, listing, pausing, purging, measuring and closing queues.

use crate::prelude::*;

pub(super) async fn the_core_of_the_contract_is_held(h: &mut dyn Harness) {
    let guarantees = Fixture::open(h).await.guarantees();
    assert!(!guarantees.broker.is_empty(), "a broker has a name");
    // The minimum that flows need of any backend.
    use Aspect::{
        Bodies, DeadLetters, Defer, Fencing, Headers, Lease, Names, PublisherConfirm, Restart, RetryCount,
        RetryDelay,
    };
    for aspect in [
        PublisherConfirm,
        Lease,
        Fencing,
        RetryDelay,
        Defer,
        RetryCount,
        DeadLetters,
        Restart,
        Bodies,
        Headers,
        Names,
    ] {
        assert!(guarantees.supports(aspect), "no broker may refuse {aspect}");
    }
}

pub(super) async fn another_spec_is_not_quietly_ignored(h: &mut dyn Harness) {
    let spec = queue("other");
    let (mut t, q) = Fixture::with(h, spec.clone()).await;
    t.send(&q, "a").await;
    let changes = [
        spec.clone().max_attempts(9),
        spec.clone().lease(LONG),
        spec.clone().ordering(Ordering::PerGroup),
        spec.clone().max_length(MaxLength::Exact(10)),
    ];
    for changed in changes {
        let known = listed(&t, &q).await;
        match t.broker().declare(std::slice::from_ref(&changed)).await {
            Ok(()) => assert_eq!(listed(&t, &q).await, changed, "a change that is accepted takes effect"),
            Err(BrokerError::Mismatch { queue, .. } | BrokerError::Refused { queue, .. }) => {
                assert_eq!(queue, q, "the answer names the queue");
                assert_eq!(listed(&t, &q).await, known, "a change that is not accepted has no effect");
            }
            Err(error) => panic!("a changed spec is taken or is a mismatch, the answer was: {error}"),
        }
    }
    assert_eq!(text(&t.take(&q).await), "a", "what was in the queue is still there");
}

async fn listed(t: &Fixture<'_>, queue: &QueueName) -> QueueSpec {
    let specs = t.broker().queues().await.expect("listing the queues");
    specs.into_iter().find(|spec| spec.name == *queue).unwrap_or_else(|| panic!("`{queue}` must be listed"))
}

pub(super) async fn invalid_specs_are_refused(h: &mut dyn Harness) {
    let t = Fixture::open(h).await;
    for bad in [
        queue("no-prefetch").prefetch(0),
        queue("no-lease").lease(NOW),
        queue("no-attempts").max_attempts(0),
        queue("no-room").max_length(MaxLength::Exact(0)),
        queue("no-space").max_length(MaxLength::Approximate { limit: 0, slack: 9 }),
    ] {
        let answer = t.broker().declare(std::slice::from_ref(&bad)).await;
        let invalid = matches!(&answer, Err(BrokerError::InvalidSpec { queue, .. }) if *queue == bad.name);
        assert!(invalid, "{bad:?} must be refused as invalid by its name, the answer was {answer:?}");
        let outcomes = t.broker().publish(vec![Outgoing::to_queue(&bad.name, "a")]).await;
        let unknown = matches!(outcomes[..], [Err(PublishError::UnknownQueue { .. })]);
        assert!(unknown, "a queue that was refused must not exist, the answer was {outcomes:?}");
    }
}

pub(super) async fn declaring_again_changes_nothing_and_queues_are_listed_by_name(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    let mut specs = vec![
        queue("list-c").prefetch(3).lease(Duration::from_secs(90)).max_attempts(9),
        queue("list-a"),
        queue("list-b").lease(LONG),
    ];
    t.declare_all(specs.clone()).await;
    let q = specs[0].name.clone();
    t.send_dead(&q, "dead", "hopeless").await;
    t.send_all(&q, &["a", "b"]).await;
    let letters = t.dead_letters(&q).await;
    let twice = [specs.clone(), specs.clone()].concat();
    assert_eq!(t.broker().declare(&twice).await, Ok(()), "declaring them again");
    assert_eq!(t.dead_letters(&q).await, letters, "the dead letters are still there");
    assert_eq!(sorted(t.drain(&q, 2).await), ["a", "b"], "the messages are still there");
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(t.broker().queues().await, Ok(specs.clone()), "what was declared, once, sorted by name");
    t.restart().await;
    assert_eq!(t.broker().queues().await, Ok(specs), "after a restart and declaring again as well");
}

pub(super) async fn two_hundred_queues_are_kept_apart(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    let tail = unique("n");
    let long = format!("{}.{tail}", "l".repeat(198 - tail.len()));
    let longer = format!("l{long}");
    let alike = ["a.b", "a-b", "A.b", "a.b.fifo", "aXb", "a..b"].map(|stem| format!("{stem}-{tail}"));
    let names = (0..190).map(|i| format!("many-{i}-{tail}")).chain(alike).chain([long, longer]);
    let name = |name: String| QueueName::new(&name).expect("the suite's queue names are allowed");
    let mut names: Vec<QueueName> = names.map(name).collect();
    t.declare_all(names.iter().cloned().map(QueueSpec::new).collect()).await;
    // A broker that cannot tell dots from underscores says so.
    let underscore = QueueSpec::new(name(format!("a_b-{tail}")));
    match t.broker().declare(std::slice::from_ref(&underscore)).await {
        Ok(()) => names.push(underscore.name),
        Err(BrokerError::Refused { queue, aspect: Aspect::Names, .. }) => {
            assert!(!t.native(Aspect::Names) && queue == underscore.name, "names are carried unchanged");
        }
        Err(error) => {
            panic!("a name that differs in a character is accepted or refused, the answer was: {error}")
        }
    }
    t.publish(names.iter().map(|name| Outgoing::to_queue(name, name.as_str().to_owned())).collect()).await;
    for name in &names {
        let delivery = t.consume(name).await;
        assert_eq!(text(&delivery), name.as_str(), "each queue has its own message");
    }
}

/// Results of all calls that take a queue and return a `BrokerError`.
async fn calls(b: &dyn QueueBackend, queue: &QueueName) -> [(&'static str, Result<(), BrokerError>); 8] {
    let all = DeadLetterFilter::all();
    [
        ("receive", b.receive(queue, 1, NOW).await.map(drop)),
        ("depth", b.depth(queue).await.map(drop)),
        ("purge", b.purge(queue).await.map(drop)),
        ("pause", b.pause(queue).await),
        ("resume", b.resume(queue).await),
        ("dead_letters", b.dead_letters(queue, &all, None, 1).await.map(drop)),
        ("replay", b.replay(queue, &all).await.map(drop)),
        ("drop_dead", b.drop_dead_letters(queue, &all).await.map(drop)),
    ]
}

pub(super) async fn unknown_queues_are_named(h: &mut dyn Harness) {
    let t = Fixture::open(h).await;
    let nowhere = queue("nowhere").name;
    for (call, answer) in calls(&**t.broker(), &nowhere).await {
        match answer {
            Err(BrokerError::UnknownQueue { queue, .. }) => {
                assert_eq!(queue, nowhere, "{call} names the queue");
            }
            // An unsupported operation may be refused first.
            Err(BrokerError::Refused { .. }) => {}
            other => panic!("{call} on an unknown queue must say so, the answer was {other:?}"),
        }
    }
}

pub(super) async fn a_pause_stops_deliveries_only(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("paused").lease(LEASE)).await;
    let other = t.declare(queue("running")).await;
    t.send_all(&q, &["a", "b", "c", "d"]).await;
    let held = t.take_all(&q, 4).await;
    let Some(()) = t.supported(Aspect::Pause, t.broker().pause(&q).await) else { return };
    assert_eq!(t.broker().pause(&q).await, Ok(()), "pausing what is paused does nothing");
    t.send(&q, "e").await;
    t.expect_none(&q, "the queue is paused, though publishing continues").await;
    t.done(&held[0]).await;
    t.settle(&held[1], retry(NOW, "failed")).await;
    t.settle(&held[2], defer(t.now())).await;
    t.advance_past(held[3].lease_until + SOON).await;
    t.expect_none(&q, "redeliveries wait in a paused queue").await;
    t.depth_that(&q, "the depth must say that it is paused", |depth| depth.paused).await;
    let elsewhere = t.send_and_take(&other, "elsewhere").await;
    assert_eq!(text(&elsewhere), "elsewhere", "another queue is not paused");

    let receiving = t.start_receive(&q, 1, "the queue is paused").await;
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming");
    let mut came = t.await_bodies(receiving, "the queue is resumed").await;
    came.extend(t.take_all(&q, 3).await.iter().map(text));
    let expected = held[1..].iter().map(text).chain(["e".to_owned()]).collect();
    assert_eq!(sorted(came), sorted(expected), "all new and returned messages are delivered");
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming what is not paused does nothing");
    t.depth_that(&q, "the depth must say that it is not paused", |depth| !depth.paused).await;
}

pub(super) async fn purging_takes_what_waits(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("purged").lease(LEASE)).await;
    let Some(none) = t.supported(Aspect::Purge, t.broker().purge(&q).await) else { return };
    assert_eq!(none, 0, "nothing waits yet");
    let other = t.declare(queue("untouched")).await;
    t.send(&other, "elsewhere").await;
    t.send_dead(&q, "dead", "hopeless").await;
    t.send_all(&q, &["delayed", "flying", "lost"]).await;
    let held = t.take_all(&q, 3).await;
    t.settle(&held[0], retry(LONG, "failed")).await;
    t.send_all(&q, &["ready", "ready too"]).await;

    assert_eq!(t.broker().purge(&q).await, Ok(3), "two ready and one delayed");
    assert_eq!(t.broker().purge(&q).await, Ok(0), "nothing is left that waits");
    t.expect_none(&q, "it was purged").await;
    t.done(&held[1]).await;
    let back = t.consume(&q).await;
    assert_eq!(text(&back), text(&held[2]), "messages in flight are redelivered");
    assert_eq!(t.dead_bodies(&q).await, ["dead"], "dead letters are not touched");
    assert_eq!(t.drain(&other, 1).await, ["elsewhere"], "nor is another queue");
    t.restart().await;
    let purged = [text(&held[0]), "ready".into(), "ready too".into()];
    for delivery in t.poll(&q, 10).await {
        // Without settle durability, settled messages may be redelivered, but purged ones may not.
        assert!(!t.native(Aspect::SettleDurability), "nothing was left, but {} came", text(&delivery));
        assert!(!purged.contains(&text(&delivery)), "{} was purged and redelivered", text(&delivery));
    }
}

pub(super) async fn depth_shows_each_state_and_the_oldest_age(h: &mut dyn Harness) {
    let mut t = Fixture::open(h).await;
    // A lagging depth must have time to show deliveries in flight.
    let lag = t.guarantees().depth_lag;
    let q = t.declare(queue("depth").lease(LEASE + 2 * lag)).await;
    t.depth_is(&q, (0, 0, 0, 0), "in an empty queue").await;
    let published = t.now();
    t.send(&q, "a").await;
    t.advance(SOON).await;
    t.send_all(&q, &["b", "c", "d", "e"]).await;
    t.depth_is(&q, (5, 0, 0, 0), "after publishing").await;
    // The age is optional, but must be correct if present.
    if let Some(age) = t.depth(&q).await.and_then(|depth| depth.oldest_age) {
        // With times in whole seconds, a message seems up to one second older.
        let second = Duration::from_secs(1);
        let (least, most) = (SOON.saturating_sub(second), t.now().since(published) + second);
        assert!(age >= least && age <= most, "the oldest is between {least:?} and {most:?} old, not {age:?}");
    }
    let held = t.take_all(&q, 4).await;
    t.depth_is(&q, (1, 4, 0, 0), "after taking four").await;
    t.settle(&held[0], retry(LONG, "failed")).await;
    t.settle(&held[1], defer(t.now() + LONG)).await;
    t.settle(&held[2], dead("hopeless")).await;
    t.depth_is(&q, (1, 1, 2, 1), "after a retry, a deferral and a dead letter").await;
    t.advance_past(held[3].lease_until).await;
    t.depth_is(&q, (2, 0, 2, 1), "after a lease was lost").await;
    t.drain(&q, 2).await;
    t.depth_is(&q, (0, 0, 2, 1), "after all that was ready is done").await;
}

pub(super) async fn rates_follow_the_traffic(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("rates")).await;
    // The current second may not be counted yet.
    let lag = t.guarantees().depth_lag + SOON;
    let (start, mut sent) = (t.now(), 0);
    loop {
        let held = t.send_and_take(&q, "a").await;
        sent += 1;
        t.done(&held).await;
        t.advance(STEP).await;
        let Some(depth) = t.depth(&q).await else { return };
        if let Some(rates) = depth.rates
            && rates.published > 0.0
            && rates.settled > 0.0
        {
            let most = f64::from(sent);
            assert!(rates.published <= most && rates.settled <= most, "of {sent} in a second, not {rates:?}");
            break;
        }
        if t.now().since(start) > lag {
            // Rates are optional, but must be correct if present.
            assert_eq!(depth.rates, None, "after {sent} were published and settled within {lag:?}");
            return;
        }
    }
    let (stopped, lag) = (t.now(), lag + Rates::WINDOW + t.guarantees().depth_lag);
    loop {
        let rates = t.depth(&q).await.and_then(|depth| depth.rates);
        if rates == Some(Rates::default()) {
            return;
        }
        assert!(t.now().since(stopped) < lag, "{lag:?} after the last one the rates are {rates:?}");
        t.advance(STEP * 10).await;
    }
}

pub(super) async fn closing_is_final(h: &mut dyn Harness) {
    let (mut t, q) = Fixture::with(h, queue("closed").lease(LEASE)).await;
    let empty = t.declare(queue("empty")).await;
    let held = t.send_and_take(&q, "a").await;
    let receiving = t.start_receive(&empty, 1, "there is nothing").await;
    let b = t.broker().clone();
    assert_eq!(b.close().await, Ok(()), "closing");
    let answer = t.await_receive(receiving, "the broker is closed").await;
    let ended = matches!(&answer, Err(BrokerError::Closed)) || answer.as_ref().is_ok_and(Vec::is_empty);
    assert!(ended, "a receive that was waiting ends with nothing or as closed, not with {answer:?}");

    let outcomes = b.publish(vec![Outgoing::to_queue(&q, "b"), Outgoing::to_queue(&q, "c")]).await;
    assert_eq!(outcomes, [Err(PublishError::Closed), Err(PublishError::Closed)], "publishing");
    let settled = b.settle(vec![(held.receipt.clone(), Verdict::Done)]).await;
    assert_eq!(settled, [Err(SettleError::Closed)], "settling");
    let extended = b.extend(std::slice::from_ref(&held.receipt), LEASE).await;
    assert_eq!(extended, [Err(SettleError::Closed)], "extending");
    assert_eq!(b.declare(&[queue("late")]).await, Err(BrokerError::Closed), "declaring");
    assert_eq!(b.queues().await, Err(BrokerError::Closed), "listing queues");
    for (call, answer) in calls(&*b, &q).await {
        assert_eq!(answer, Err(BrokerError::Closed), "{call} on a closed broker");
    }
    let waiting = b.receive(&q, 1, LONG).await;
    assert_eq!(waiting, Err(BrokerError::Closed), "a closed broker is not waited for");
    drop(b);
    t.restart().await;
    assert_eq!(text(&t.take(&q).await), "a", "messages in flight are redelivered");
    t.expect_none(&q, "nothing was published after closing").await;
}
