//! Cases: retention of closed dead letters, sessions and messages.

use super::fixture::*;

/// Lets the retention pass and purges everything; returns how many rows.
async fn expire(t: &mut Fixture<'_>) -> u64 {
    t.pass_all_of(POLICY.retention + Duration::from_millis(1)).await;
    t.purge(1000).await
}

pub(super) async fn closed_letters_are_forgotten(mut t: Fixture<'_>) {
    let one = t.open("one").await;
    let [replayed, dropped] =
        [t.dead_lettered(&one, &letter(&key("a"))).await, t.dead_lettered(&one, &letter(&key("b"))).await];
    let last = t.dead_lettered(&one, &letter(&key("c"))).await;
    let replay = t.replaying(replayed, 1).await;
    assert!(t.end_replay(replay).await && t.drop_letter(dropped).await);
    t.pass(POLICY.retention / 2).await;
    assert_eq!(t.purge(1000).await, 0, "their traces are kept for a while");
    assert_eq!(t.take_all(&one, &[key("a"), key("b")]).await, [TakeOutcome::Closed, TakeOutcome::Closed]);
    assert_eq!(expire(&mut t).await, t.purged(2));
    for message in ["a", "b"] {
        assert_eq!(t.counts(&one, &key(message)).await, [0, 0, 0], "{message} is unknown");
    }
    assert!(t.dead_lettered(&one, &letter(&key("a"))).await > last, "no number is used again");
    assert!(t.end_replay(replay).await, "whatever is unknown is closed");
}

pub(super) async fn dead_letters_are_kept(mut t: Fixture<'_>) {
    let one = t.open("one").await;
    let id = t.dead_lettered(&one, &letter(&key("a"))).await;
    t.replaying(id, 1).await;
    for _ in 0..3 {
        assert_eq!(expire(&mut t).await, 0);
    }
    assert_eq!(t.letters().await.len(), 1, "it is dead until it is replayed or dropped");
    assert_eq!(t.body(id).await, Some(b"a".to_vec()));
    assert_eq!(t.take(&one, &key("a")).await, TakeOutcome::Dead(id));
}

pub(super) async fn histories_and_lost_sessions_are_forgotten(mut t: Fixture<'_>) {
    let [lost, one] = [t.open("lost").await, t.open("one").await];
    let [a, b] = ["a", "b"].map(key);
    t.taken(&lost, &a).await;
    t.crash_all_but(&[&one]).await;
    t.taken(&one, &b).await;
    assert!(t.settle(&one, &b, failed("timeout")).await);
    t.pass(POLICY.retention / 2).await;
    assert_eq!(t.purge(1000).await, 0);
    assert!(t.heartbeat(&one).await, "after an outage");
    assert_eq!(t.counts(&one, &b).await, [1, 0, 0]);
    assert!(t.settle(&one, &b, failed("timeout")).await, "a change keeps a history for longer");
    t.pass_all_of(POLICY.retention / 2 + Duration::from_secs(1)).await;
    assert_eq!(t.purge(1000).await, t.purged(2), "the session and the history of `a`");
    assert!(t.heartbeat(&one).await);
    assert_eq!([t.counts(&one, &a).await, t.counts(&one, &b).await], [[0, 0, 0], [2, 0, 0]]);
}

pub(super) async fn no_more_rows_than_asked_are_purged(mut t: Fixture<'_>) {
    let one = t.open("one").await;
    for number in 0..5 {
        let message = key(&number.to_string());
        t.taken(&one, &message).await;
        assert!(t.settle(&one, &message, failed("timeout")).await);
        let dead = t.dead_lettered(&one, &letter(&key(&format!("dead {number}")))).await;
        assert!(t.drop_letter(dead).await);
    }
    t.pass_all_of(POLICY.retention + Duration::from_millis(1)).await;
    assert_eq!(t.purge(0).await, 0);
    let mut sizes = Vec::new();
    for _ in 0..5 {
        sizes.push(t.purge(3).await);
    }
    // The last letter's trace may stay, so that its number is not used again.
    let all: u64 = sizes.iter().sum();
    assert!(sizes.iter().all(|size| *size <= 3) && (t.purged(9)..=10).contains(&all), "{sizes:?}");
}
