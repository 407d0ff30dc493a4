//! Cases: declaring, listing, pausing, purging, measuring and closing queues.

use super::Harness;
use super::trial::{LEASE, LONG, SOON, STEP, Trial, queue, text, unique};
use crate::{
    Aspect, BrokerError, DeadFilter, MaxLength, Outgoing, PublishError, QueueName, QueueSpec, Rates,
    SettleError, Verdict,
};
use std::time::Duration;

pub(super) async fn the_core_of_the_contract_is_held(h: &mut dyn Harness) {
    let t = Trial::open(h).await;
    let guarantees = t.guarantees();
    assert!(!guarantees.broker.is_empty(), "a broker has a name");
    // Without these a backend is no queue for the flows, whatever it states about the rest.
    for aspect in [
        Aspect::Confirm,
        Aspect::Lease,
        Aspect::Fencing,
        Aspect::RetryDelay,
        Aspect::Defer,
        Aspect::RetryCount,
        Aspect::DeadLetters,
        Aspect::Restart,
        Aspect::Bodies,
        Aspect::Headers,
        Aspect::Names,
    ] {
        assert!(guarantees.has(aspect), "no broker may refuse {aspect}");
    }
}

pub(super) async fn declaring_again_changes_nothing(h: &mut dyn Harness) {
    let spec = queue("again").prefetch(4).lease(LEASE).max_attempts(7);
    let (mut t, q) = Trial::with(h, spec.clone()).await;
    t.send(&q, "a").await;
    t.send(&q, "b").await;
    t.bury(&q, "c", "hopeless").await;
    let dead = t.dead_letters(&q).await;
    assert_eq!(t.broker().declare(&[spec.clone(), spec]).await, Ok(()), "declaring the same again");
    assert_eq!(t.dead_letters(&q).await, dead, "the dead are still there");
    let mut left = t.drain(&q, 2).await;
    left.push(String::from_utf8_lossy(&dead[0].message.body).into_owned());
    left.sort();
    assert_eq!(left, ["a", "b", "c"], "the messages are still there");
}

pub(super) async fn another_spec_is_not_quietly_ignored(h: &mut dyn Harness) {
    let spec = queue("other");
    let (mut t, q) = Trial::with(h, spec.clone()).await;
    t.send(&q, "a").await;
    let changes = [
        spec.clone().max_attempts(9),
        spec.clone().lease(LONG),
        spec.clone().groups(),
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

async fn listed(t: &Trial<'_>, queue: &QueueName) -> QueueSpec {
    let specs = t.broker().queues().await.expect("listing the queues");
    specs.into_iter().find(|spec| spec.name == *queue).unwrap_or_else(|| panic!("`{queue}` must be listed"))
}

pub(super) async fn invalid_specs_are_refused(h: &mut dyn Harness) {
    let t = Trial::open(h).await;
    for bad in [
        queue("no-prefetch").prefetch(0),
        queue("no-lease").lease(Duration::ZERO),
        queue("no-attempts").max_attempts(0),
        queue("no-room").max_length(MaxLength::Exact(0)),
        queue("no-space").max_length(MaxLength::Approximate { limit: 0, slack: 9 }),
    ] {
        match t.broker().declare(std::slice::from_ref(&bad)).await {
            Err(BrokerError::InvalidSpec { queue, .. }) => {
                assert_eq!(queue, bad.name, "the answer names the queue");
            }
            other => panic!("{bad:?} must be refused as invalid, the answer was {other:?}"),
        }
        let outcomes = t.broker().publish(vec![Outgoing::to_queue(&bad.name, "a")]).await;
        let unknown = matches!(outcomes[..], [Err(PublishError::UnknownQueue { .. })]);
        assert!(unknown, "a queue that was refused must not exist, the answer was {outcomes:?}");
    }
}

pub(super) async fn queues_are_listed_by_name(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let mut specs = vec![
        queue("list-c").prefetch(3).lease(Duration::from_secs(90)).max_attempts(9),
        queue("list-a"),
        queue("list-b").lease(LONG),
    ];
    t.declare_all(specs.clone()).await;
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    let mine: Vec<QueueSpec> = t.broker().queues().await.expect("listing the queues");
    assert_eq!(mine, specs, "what was declared, sorted by name");
    t.restart().await;
    assert_eq!(t.broker().queues().await, Ok(specs), "after a restart and declaring again as well");
}

pub(super) async fn names_are_kept_apart(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    let tail = unique("n");
    let long = format!("{}.{tail}", "l".repeat(198 - tail.len()));
    let longer = format!("l{long}");
    let stems = ["a.b", "a-b", "a_b", "A.b", "a.b.fifo", "aXb", "a..b"];
    let names: Vec<String> =
        stems.iter().map(|stem| format!("{stem}-{tail}")).chain([long, longer]).collect();
    let names: Vec<QueueName> =
        names.iter().map(|name| QueueName::new(name).expect("the suite's queue names are allowed")).collect();
    t.declare_all(names.iter().cloned().map(QueueSpec::new).collect()).await;
    t.publish(names.iter().map(|name| Outgoing::to_queue(name, name.as_str().to_owned())).collect()).await;
    for name in &names {
        assert_eq!(t.drain(name, 1).await, [name.as_str()], "each queue has its own message");
    }
}

pub(super) async fn unknown_queues_are_named(h: &mut dyn Harness) {
    let (t, q) = Trial::with(h, queue("known")).await;
    let nowhere = queue("nowhere").name;
    let outcomes =
        t.broker().publish(vec![Outgoing::to_queue(&nowhere, "a"), Outgoing::to_queue(&q, "b")]).await;
    match &outcomes[..] {
        [Err(PublishError::UnknownQueue { queue, .. }), Ok(())] => {
            assert_eq!(*queue, nowhere, "the unknown one");
        }
        other => panic!("publishing to an unknown queue must say so, the answer was {other:?}"),
    }
    let all = DeadFilter::all();
    let b = t.broker();
    let answers = [
        ("receive", b.receive(&nowhere, 1, Duration::ZERO).await.map(drop)),
        ("depth", b.depth(&nowhere).await.map(drop)),
        ("purge", b.purge(&nowhere).await.map(drop)),
        ("pause", b.pause(&nowhere).await),
        ("resume", b.resume(&nowhere).await),
        ("dead_letters", b.dead_letters(&nowhere, &all, None, 1).await.map(drop)),
        ("replay", b.replay(&nowhere, &all).await.map(drop)),
        ("drop_dead", b.drop_dead(&nowhere, &all).await.map(drop)),
    ];
    for (call, answer) in answers {
        match answer {
            Err(BrokerError::UnknownQueue { queue, .. }) => {
                assert_eq!(queue, nowhere, "{call} names the queue");
            }
            // What a broker cannot do at all it may say first.
            Err(BrokerError::Refused { .. }) => {}
            other => panic!("{call} on an unknown queue must say so, the answer was {other:?}"),
        }
    }
}

/// Sees that pausing is refused where the broker cannot, and says whether it can.
async fn can_pause(t: &Trial<'_>, queue: &QueueName) -> bool {
    let answer = t.broker().pause(queue).await;
    if t.has(Aspect::Pause) {
        assert_eq!(answer, Ok(()), "pausing");
        return true;
    }
    let refused = matches!(answer, Err(BrokerError::Refused { aspect: Aspect::Pause, .. }));
    assert!(refused, "pausing must be refused, the answer was {answer:?}");
    false
}

pub(super) async fn a_pause_stops_deliveries_only(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("paused")).await;
    let other = t.declare(queue("running")).await;
    t.send(&q, "a").await;
    t.send(&q, "b").await;
    let held = t.take(&q).await;
    if !can_pause(&t, &q).await {
        return;
    }
    assert_eq!(t.broker().pause(&q).await, Ok(()), "pausing what is paused does nothing");
    t.nothing(&q, "the queue is paused").await;
    t.send(&q, "c").await;
    t.nothing(&q, "the queue is paused, though publishing goes on").await;
    t.done(&held).await;
    depth_says_paused(&mut t, &q, true).await;
    t.send(&other, "elsewhere").await;
    assert_eq!(text(&t.take(&other).await), "elsewhere", "another queue is not paused");

    let (broker, name) = (t.broker().clone(), q.clone());
    let waiting = tokio::spawn(async move { broker.receive(&name, 1, LONG).await });
    tokio::time::sleep(t.beat()).await;
    assert!(!waiting.is_finished(), "a receive waits while the queue is paused");
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming");
    let got = tokio::time::timeout(t.deadline(), waiting)
        .await
        .unwrap_or_else(|_| panic!("the queue is resumed, so the waiting receive must return"))
        .expect("the receiving task")
        .expect("a receive that waits");
    assert_eq!(got.len(), 1, "what waited is delivered");
    t.take(&q).await;
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming what is not paused does nothing");
    depth_says_paused(&mut t, &q, false).await;
}

async fn depth_says_paused(t: &mut Trial<'_>, queue: &QueueName, paused: bool) {
    if !t.has(Aspect::Depth) {
        return;
    }
    let (start, lag) = (t.now(), t.guarantees().depth_lag);
    while t.depth(queue).await.paused != paused {
        assert!(t.now().since(start) < lag, "the depth says whether `{queue}` is paused: {paused}");
        t.pass(STEP).await;
    }
}

pub(super) async fn a_pause_keeps_what_comes_back(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("kept").lease(LEASE)).await;
    for body in ["lost", "retried", "deferred"] {
        t.send(&q, body).await;
    }
    let held = t.take_all(&q, 3).await;
    if !can_pause(&t, &q).await {
        return;
    }
    for delivery in &held {
        match text(delivery).as_str() {
            "retried" => t.retry(delivery, Duration::ZERO, "failed").await,
            "deferred" => t.defer(delivery, t.now()).await,
            _ => {}
        }
    }
    t.pass_until(held[0].lease_until + SOON).await;
    t.nothing(&q, "the queue is paused").await;
    assert_eq!(t.broker().resume(&q).await, Ok(()), "resuming");
    let mut bodies = t.drain(&q, 3).await;
    bodies.sort();
    assert_eq!(bodies, ["deferred", "lost", "retried"], "all that came back meanwhile is there");
}

pub(super) async fn purging_takes_what_waits(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("purged").lease(LEASE)).await;
    if !t.has(Aspect::Purge) {
        let answer = t.broker().purge(&q).await;
        let refused = matches!(answer, Err(BrokerError::Refused { aspect: Aspect::Purge, .. }));
        assert!(refused, "purging must be refused, the answer was {answer:?}");
        return;
    }
    let other = t.declare(queue("untouched")).await;
    t.send(&other, "elsewhere").await;
    t.bury(&q, "dead", "hopeless").await;
    for body in ["delayed", "flying", "lost"] {
        t.send(&q, body).await;
    }
    let held = t.take_all(&q, 3).await;
    t.retry(&held[0], LONG, "failed").await;
    t.send(&q, "ready").await;
    t.send(&q, "ready too").await;

    assert_eq!(t.broker().purge(&q).await, Ok(3), "two ready and one delayed");
    assert_eq!(t.broker().purge(&q).await, Ok(0), "nothing is left that waits");
    t.nothing(&q, "it was purged").await;
    t.done(&held[1]).await;
    let back = t.take(&q).await;
    assert_eq!(text(&back), text(&held[2]), "what was in flight comes back");
    t.done(&back).await;
    assert_eq!(t.dead_bodies(&q).await, ["dead"], "the dead are not touched");
    assert_eq!(t.drain(&other, 1).await, ["elsewhere"], "nor is another queue");
    t.restart().await;
    let purged = [text(&held[0]), "ready".into(), "ready too".into()];
    for delivery in t.look(&q, 10).await {
        // Where acknowledgements can be undone, what was settled may come back; what was purged may not.
        assert!(!t.native(Aspect::SettleDurability), "nothing was left, but {} came", text(&delivery));
        assert!(!purged.contains(&text(&delivery)), "{} was purged and came back", text(&delivery));
    }
}

pub(super) async fn depth_shows_each_state(h: &mut dyn Harness) {
    let mut t = Trial::open(h).await;
    // Depths that lag behind must show what is in flight while it is.
    let lag = t.guarantees().depth_lag;
    let q = t.declare(queue("depth").lease(LEASE + 2 * lag)).await;
    t.depth_is(&q, (0, 0, 0, 0), "in an empty queue").await;
    for body in ["a", "b", "c", "d", "e"] {
        t.send(&q, body).await;
    }
    t.depth_is(&q, (5, 0, 0, 0), "after publishing").await;
    let held = t.take_all(&q, 4).await;
    t.depth_is(&q, (1, 4, 0, 0), "after taking four").await;
    t.retry(&held[0], LONG, "failed").await;
    t.defer(&held[1], t.now() + LONG).await;
    t.kill(&held[2], "hopeless").await;
    t.depth_is(&q, (1, 1, 2, 1), "after a retry, a deferral and a death").await;
    t.pass_until(held[3].lease_until).await;
    t.depth_is(&q, (2, 0, 2, 1), "after a lease was lost").await;
    t.drain(&q, 2).await;
    t.depth_is(&q, (0, 0, 2, 1), "after all that was ready is done").await;
}

pub(super) async fn the_oldest_age_grows(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("age")).await;
    if !t.has(Aspect::Depth) {
        t.depth_is(&q, (0, 0, 0, 0), "without depths").await;
        return;
    }
    assert_eq!(t.depth(&q).await.oldest_age, None, "nothing waits, so nothing is old");
    let published = t.now();
    t.send(&q, "old").await;
    t.pass(SOON).await;
    t.send(&q, "new").await;
    t.depth_is(&q, (2, 0, 0, 0), "with an old and a new one").await;
    let age = t.depth(&q).await.oldest_age;
    // Where times are kept in whole seconds, a message seems older by up to one.
    let most = t.now().since(published) + Duration::from_secs(1);
    // A broker that cannot say how old they are says nothing; one that can must not say anything else.
    if let Some(age) = age {
        let least = SOON.saturating_sub(Duration::from_secs(1));
        assert!(age >= least && age <= most, "the oldest is between {least:?} and {most:?} old, not {age:?}");
    }
    t.drain(&q, 2).await;
    t.depth_is(&q, (0, 0, 0, 0), "when all are done").await;
    assert_eq!(t.depth(&q).await.oldest_age, None, "nothing waits any more");
}

pub(super) async fn rates_follow_the_traffic(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("rates")).await;
    if !t.has(Aspect::Depth) {
        t.depth_is(&q, (0, 0, 0, 0), "without depths").await;
        return;
    }
    // What is under way may not be counted yet, nor told.
    let lag = t.guarantees().depth_lag + SOON;
    let (start, mut sent) = (t.now(), 0);
    loop {
        t.send(&q, "a").await;
        sent += 1;
        let held = t.take(&q).await;
        t.done(&held).await;
        t.pass(STEP).await;
        let rates = t.depth(&q).await.rates;
        if let Some(rates) = rates
            && rates.published > 0.0
            && rates.settled > 0.0
        {
            let most = f64::from(sent);
            assert!(rates.published <= most && rates.settled <= most, "of {sent} in a second, not {rates:?}");
            break;
        }
        if t.now().since(start) > lag {
            // A broker that cannot say how fast they are says nothing; one that can must not say anything else.
            assert_eq!(rates, None, "after {sent} were published and settled within {lag:?}");
            return;
        }
    }
    let (stopped, lag) = (t.now(), lag + Rates::WINDOW + t.guarantees().depth_lag);
    while t.depth(&q).await.rates != Some(Rates::default()) {
        let rates = t.depth(&q).await.rates;
        assert!(t.now().since(stopped) < lag, "{lag:?} after the last one the rates are {rates:?}");
        t.pass(STEP * 10).await;
    }
}

pub(super) async fn closing_is_final(h: &mut dyn Harness) {
    let (mut t, q) = Trial::with(h, queue("closed").lease(LEASE)).await;
    t.send(&q, "a").await;
    let held = t.take(&q).await;
    let b = t.broker().clone();
    assert_eq!(b.close().await, Ok(()), "closing");

    let outcomes = b.publish(vec![Outgoing::to_queue(&q, "b"), Outgoing::to_queue(&q, "c")]).await;
    assert_eq!(outcomes, [Err(PublishError::Closed), Err(PublishError::Closed)], "publishing");
    let settled = b.settle(vec![(held.receipt.clone(), Verdict::Done)]).await;
    assert_eq!(settled, [Err(SettleError::Closed)], "settling");
    let extended = b.extend(std::slice::from_ref(&held.receipt), LEASE).await;
    assert_eq!(extended, [Err(SettleError::Closed)], "extending");
    let all = DeadFilter::all();
    let answers = [
        ("declare", b.declare(&[queue("late")]).await),
        ("queues", b.queues().await.map(drop)),
        ("receive", b.receive(&q, 1, LONG).await.map(drop)),
        ("depth", b.depth(&q).await.map(drop)),
        ("purge", b.purge(&q).await.map(drop)),
        ("pause", b.pause(&q).await),
        ("resume", b.resume(&q).await),
        ("dead_letters", b.dead_letters(&q, &all, None, 1).await.map(drop)),
        ("replay", b.replay(&q, &all).await.map(drop)),
        ("drop_dead", b.drop_dead(&q, &all).await.map(drop)),
    ];
    for (call, answer) in answers {
        assert_eq!(answer, Err(BrokerError::Closed), "{call} on a closed broker");
    }
    drop(b);
    t.restart().await;
    assert_eq!(text(&t.take(&q).await), "a", "what was in flight comes back");
    t.nothing(&q, "nothing was published after closing").await;
}

pub(super) async fn closing_ends_a_waiting_receive(h: &mut dyn Harness) {
    let (t, q) = Trial::with(h, queue("waiting")).await;
    let (broker, name) = (t.broker().clone(), q.clone());
    let waiting = tokio::spawn(async move { broker.receive(&name, 1, LONG).await });
    tokio::time::sleep(t.beat()).await;
    assert_eq!(t.broker().close().await, Ok(()), "closing");
    let answer = tokio::time::timeout(t.deadline(), waiting)
        .await
        .unwrap_or_else(|_| panic!("the broker is closed, so the waiting receive must return"))
        .expect("the receiving task");
    assert!(
        matches!(&answer, Err(BrokerError::Closed)) || answer.as_ref().is_ok_and(Vec::is_empty),
        "a receive that was waiting ends with nothing or as closed, not with {answer:?}"
    );
}
