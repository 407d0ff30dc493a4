//! The gate on PostgreSQL by the server's own clock, after a crash of the server, and from many connections at once.
#![allow(clippy::unwrap_used, reason = "a failure of a gate fails the test, wherever it is noticed")]

mod harness;

use crawlway_clock::Clock;
use crawlway_store::{Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Timestamp, Turn};
use crawlway_store_sql::{SqlGate, SqlOptions, SqlStore};
use harness::Ground;
use std::{sync::Arc, time::Duration};

const GAP: Duration = Duration::from_millis(400);

async fn by_the_server(ground: &Ground) -> SqlGate {
    let options = SqlOptions { clock: Clock::System, ..ground.options() };
    SqlStore::open(options).await.unwrap().gate(Policy::default()).await.unwrap()
}

fn group(name: &str) -> Group {
    Group::new(name).unwrap()
}

/// Asks until it may go, and says how often it was told to wait.
async fn go(gate: &dyn Gate, group: &Group, ticket: Ticket, limits: &Limits) -> (Permit, usize) {
    let mut waits = 0;
    loop {
        match gate.reserve(group, ticket, limits).await.unwrap() {
            Turn::Go(permit) => return (permit, waits),
            Turn::NotBefore { at, .. } => {
                waits += 1;
                // The server runs on this machine, so that its clock is ours.
                tokio::time::sleep(at.since(Timestamp::now()) + Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_clock_holds_the_gap_between_all_who_ask() {
    let ground = Ground::postgres().await;
    let limits = Limits::one_at_a_time(GAP);
    let g = group("example.org");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..4 {
        let gate = by_the_server(&ground).await;
        let g = g.clone();
        tasks.spawn(async move {
            let (permit, _) = go(&gate, &g, Ticket::from_u128(number), &limits).await;
            let began = Timestamp::now();
            gate.finish(&permit, Outcome::Success).await.unwrap();
            (began, Timestamp::now())
        });
    }
    let mut requests = tasks.join_all().await;
    requests.sort();
    for pair in requests.windows(2) {
        let apart = pair[1].0.since(pair[0].0);
        // The end of a request is noted somewhere between our two looks at the clock.
        assert!(apart + Duration::from_millis(2) >= GAP, "{apart:?} apart: {requests:?}");
    }
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_ask_for_new_groups_at_once_get_in_nobodys_way() {
    let ground = Ground::postgres().await;
    let gates = [by_the_server(&ground).await, by_the_server(&ground).await];
    let limits = Limits { in_flight: 8, gap: Duration::ZERO };
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..240u32 {
        let (gate, g) = (gates[number as usize % 2].clone(), group(&format!("host-{}", number % 30)));
        tasks.spawn(async move {
            let (permit, _) = go(&gate, &g, Ticket::from_u128(number.into()), &limits).await;
            gate.finish(&permit, Outcome::Success).await.unwrap();
            assert_eq!(
                gate.finish(&permit, Outcome::Success).await,
                Err(GateError::Fenced { group: g.clone() })
            );
        });
    }
    tasks.join_all().await;
    assert_eq!(gates[0].tracked().await, Ok(30));
    ground.execute("UPDATE gate_life SET lanes = lanes - (SELECT count(*) FROM gate_lanes)").await;
    ground.execute("DO $$ BEGIN ASSERT (SELECT lanes FROM gate_life) = 0, 'lanes are counted'; END $$").await;
    ground.clear().await;
}

/// A crash of the server empties tables that are not logged; here somebody else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_was_emptied_lets_every_group_wait_one_gap() {
    let ground = Ground::postgres().await;
    let gate: Arc<dyn Gate> =
        Arc::new(SqlStore::open(ground.options()).await.unwrap().gate(Policy::default()).await.unwrap());
    let limits = Limits::one_at_a_time(Duration::from_secs(10));
    ground.clock.advance(limits.gap);
    let g = group("example.org");
    let (held, _) = go(&*gate, &g, Ticket::from_u128(1), &limits).await;
    ground.clock.advance(Duration::from_secs(1));
    ground.execute("TRUNCATE gate_life, gate_lanes, gate_flight, gate_line").await;

    let new_life = ground.clock.now();
    for name in ["example.org", "example.com"] {
        let turn = gate.reserve(&group(name), Ticket::from_u128(2), &limits).await.unwrap();
        assert!(
            matches!(turn, Turn::NotBefore { at, .. } if at == new_life + limits.gap),
            "{name}: {turn:?}"
        );
    }
    ground.clock.advance(Duration::from_secs(5));
    let extended = gate.extend(std::slice::from_ref(&held)).await;
    assert_eq!(
        extended,
        [Ok(ground.clock.now() + gate.policy().lease)],
        "a permit of the life before counts on"
    );
    ground.clock.advance(Duration::from_secs(20));
    let turn = gate.reserve(&g, Ticket::from_u128(2), &limits).await.unwrap();
    assert!(matches!(turn, Turn::NotBefore { .. }), "its request is still on its way: {turn:?}");
    assert_eq!(gate.finish(&held, Outcome::Success).await, Ok(()));
    ground.clear().await;
}

#[tokio::test]
async fn sqlite_has_no_gate() {
    let ground = Ground::sqlite().await;
    let refused = ground.open().await.gate(Policy::default()).await.unwrap_err().to_string();
    assert!(refused.contains("SQLite holds no gate"), "{refused}");
}
