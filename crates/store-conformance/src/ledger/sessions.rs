//! Cases: sessions live by their heartbeats, and are lost once.

use super::fixture::*;

pub(super) async fn a_living_session_is_never_lost(mut t: Fixture<'_>) {
    let (one, two) = (t.open("one").await, t.open("two").await);
    t.taken(&one, &key("a")).await;
    assert_eq!(t.live(&[&one, &two], LEASE * 10).await, [], "both send heartbeats");
    assert!(t.settle(&one, &key("a"), Settlement::Done).await, "it is still in its hands");
}

pub(super) async fn a_session_without_heartbeats_is_lost_once(mut t: Fixture<'_>) {
    let (dead, alive) = (t.open("dead").await, t.open("alive").await);
    t.take_all(&dead, &[key("b"), key("a")]).await;
    t.taken(&alive, &key("c")).await;
    assert_eq!(t.live(&[&alive], LEASE / 3).await, [], "its lease has not ended");
    let lost = t.crash_all_but(&[&alive]).await;
    let expected = LostSession {
        session: dead.clone(),
        worker: "worker of dead".to_owned(),
        suspects: vec![key("a"), key("b")],
    };
    assert_eq!(lost, [expected], "the session is lost, with what it had in flight");
    assert_eq!(t.crash_all_but(&[&alive]).await, [], "no session is lost twice");
    t.store = t.another_handle().await;
    assert_eq!(t.reap().await, [], "nor by another process");
    for message in ["a", "b"] {
        assert_eq!(t.counts(&alive, &key(message)).await, [0, 1, 0], "{message} is suspect by one loss");
    }
    assert_eq!(t.counts(&alive, &key("c")).await, [0, 0, 0], "c was in flight in a living session");
}

pub(super) async fn a_late_heartbeat_keeps_a_session(mut t: Fixture<'_>) {
    let (late, alive) = (t.open("late").await, t.open("alive").await);
    t.taken(&late, &key("a")).await;
    for _ in 0..6 {
        t.pass(LEASE / 3).await;
        assert!(t.heartbeat(&alive).await);
    }
    assert!(t.heartbeat(&late).await, "its lease has ended, but no process has reaped it");
    assert_eq!(t.reap().await, [], "it has renewed its lease");
    assert!(t.settle(&late, &key("a"), Settlement::Done).await);
}

pub(super) async fn an_outage_loses_no_living_session(mut t: Fixture<'_>) {
    let (living, dead) = (t.open("living").await, t.open("dead").await);
    t.take_all(&dead, &[key("a")]).await;
    t.take_all(&living, &[key("b")]).await;
    // No process reaches the store.
    t.pass(LEASE * 10).await;
    assert_eq!(t.reap().await, [], "sessions have half a lease to send a heartbeat");
    let other = t.open("other").await;
    let busy = t.take(&other, &key("b")).await;
    assert_eq!(
        busy,
        TakeOutcome::Taken(History { losses: 1, ..History::default() }),
        "a crash is not counted"
    );
    t.pass(LEASE / 3).await;
    assert_eq!(t.reap().await, [], "the grace period has not ended");
    assert!(t.heartbeat(&living).await, "it has outlived the outage");
    let lost = t.live(&[&living, &other], LEASE).await;
    assert_eq!(lost.iter().map(|lost| &lost.session).collect::<Vec<_>>(), [&dead], "the other one has not");
}

pub(super) async fn a_closed_session_returns_its_messages_uncounted(mut t: Fixture<'_>) {
    let (closed, next) = (t.open("closed").await, t.open("next").await);
    t.take_all(&closed, &[key("a"), key("b")]).await;
    assert!(t.mark_solo(&closed, &key("a")).await);
    expect_ok(t.store.close_session(&closed).await, "closing");
    expect_ok(t.store.close_session(&closed).await, "closing again");
    for message in ["a", "b"] {
        assert_eq!(t.counts(&next, &key(message)).await, [0, 0, 0], "{message} was handed back");
    }
    assert_eq!(t.crash_all_but(&[&next]).await, [], "a closed session is not lost");
    assert!(!t.heartbeat(&closed).await, "a closed session does not come back");
}

pub(super) async fn a_lost_session_is_fenced(mut t: Fixture<'_>) {
    let (lost, alive) = (t.open("lost").await, t.open("alive").await);
    t.taken(&lost, &key("a")).await;
    t.crash_all_but(&[&alive]).await;
    t.open("lost").await;
    for fenced in [&lost, &session("unknown")] {
        assert!(!t.heartbeat(fenced).await, "{fenced} has no lease to renew");
        assert_eq!(t.take(fenced, &key("b")).await, TakeOutcome::Fenced, "{fenced} cannot take");
        assert!(!t.settle(fenced, &key("a"), Settlement::Done).await, "{fenced} cannot settle");
        assert!(!t.mark_solo(fenced, &key("a")).await, "{fenced} cannot mark");
        assert_eq!(
            t.add_dead_letters(fenced, &letter(&key("a"))).await,
            AddDeadLetterOutcome::Fenced,
            "{fenced} cannot add dead letters"
        );
        expect_ok(t.store.close_session(fenced).await, "closing");
    }
    assert_eq!(t.counts(&alive, &key("a")).await, [0, 1, 0], "late calls of a lost session change nothing");
    assert_eq!(t.letters().await, []);
}

pub(super) async fn racing_reapers_count_a_loss_once(mut t: Fixture<'_>) {
    let alive = t.open("alive").await;
    for round in 0..5 {
        let dead = t.open(&format!("dead-{round}")).await;
        let messages: Vec<MessageKey> = (0..20).map(|number| key(&format!("{round}-{number}"))).collect();
        t.take_all(&dead, &messages).await;
        for _ in 0..4 {
            t.pass(LEASE / 3).await;
            assert!(t.heartbeat(&alive).await);
        }
        t.pass(LEASE / 6).await;
        let answers =
            t.race(6, |_, ledger| async move { expect_ok(ledger.reap_sessions().await, "reaping") }).await;
        let lost: Vec<&LostSession> = answers.iter().flatten().collect();
        assert_eq!(lost.len(), 1, "one reaper declares it lost: {lost:?}");
        assert_eq!(lost[0].suspects.len(), 20, "all that it had in flight");
        for taken in t.take_all(&alive, &messages).await {
            assert_eq!(taken, TakeOutcome::Taken(History { losses: 1, ..History::default() }));
        }
    }
}

pub(super) async fn a_heartbeat_and_a_reaper_agree(mut t: Fixture<'_>) {
    let alive = t.open("alive").await;
    for round in 0..10 {
        let late = t.open(&format!("late-{round}")).await;
        let message = key(&round.to_string());
        t.taken(&late, &message).await;
        for _ in 0..4 {
            t.pass(LEASE / 3).await;
            assert!(t.heartbeat(&alive).await);
        }
        let answers = t
            .race(4, |worker, ledger| {
                let late = late.clone();
                async move {
                    if worker == 0 {
                        return expect_ok(ledger.heartbeat(&late).await, "a heartbeat");
                    }
                    expect_ok(ledger.reap_sessions().await, "reaping").is_empty()
                }
            })
            .await;
        let lost = answers[1..].iter().filter(|empty| !**empty).count();
        assert_eq!(lost, usize::from(!answers[0]), "it is lost, or has renewed its lease: {answers:?}");
        assert_eq!(
            t.settle(&late, &message, Settlement::Done).await,
            answers[0],
            "its verdict counts or not"
        );
        expect_ok(t.store.close_session(&late).await, "closing");
    }
}
