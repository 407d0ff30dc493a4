//! Cases: crashes of solo runs.

use super::fixture::*;

pub(super) async fn a_solo_crash_counts(mut t: Fixture<'_>) {
    let next = t.open("next").await;
    let [a, b] = ["a", "b"].map(key);
    for crash in 1..=3 {
        let dead = t.open(&format!("dead-{crash}")).await;
        t.take_all(&dead, &[a.clone(), b.clone()]).await;
        assert!(t.mark_solo(&dead, &a).await);
        assert!(t.mark_solo(&dead, &a).await, "a repetition");
        t.crash_all_but(&[&next]).await;
        assert_eq!(t.counts(&next, &a).await, [0, crash, crash], "it ran solo");
        assert_eq!(t.counts(&next, &b).await, [0, crash, 0], "it did not");
        assert!(t.settle(&next, &a, Settlement::Returned).await);
        assert!(t.settle(&next, &b, Settlement::Returned).await);
    }
}

pub(super) async fn a_settled_solo_run_counts_nothing(mut t: Fixture<'_>) {
    let [dead, next] = [t.open("dead").await, t.open("next").await];
    let a = key("a");
    t.taken(&dead, &a).await;
    assert!(t.mark_solo(&dead, &a).await);
    assert!(t.settle(&dead, &a, Settlement::Returned).await);
    assert!(!t.mark_solo(&dead, &a).await, "it is not in flight");
    t.crash_all_but(&[&next]).await;
    assert_eq!(t.counts(&next, &a).await, [0, 0, 0]);
}

pub(super) async fn a_solo_run_is_not_interrupted(mut t: Fixture<'_>) {
    let [solo, next] = [t.open("solo").await, t.open("next").await];
    let a = key("a");
    t.taken(&solo, &a).await;
    let opened = t.now();
    assert!(t.mark_solo(&solo, &a).await);
    match t.take(&next, &a).await {
        TakeOutcome::Busy { until } => {
            assert!(until + t.slack() >= opened + LEASE && until <= t.now() + LEASE, "{until:?}");
        }
        other => panic!("a solo run must not be interrupted, the answer was {other:?}"),
    }
    assert_eq!(t.live(&[&solo, &next], LEASE * 2).await, [], "both live");
    assert!(matches!(t.take(&next, &a).await, TakeOutcome::Busy { .. }), "while its session lives");
    t.crash_all_but(&[&next]).await;
    assert_eq!(t.counts(&next, &a).await, [0, 1, 1], "until it is lost");
}

pub(super) async fn a_session_has_one_mark(mut t: Fixture<'_>) {
    let [dead, next] = [t.open("dead").await, t.open("next").await];
    let [a, b] = ["a", "b"].map(key);
    t.take_all(&dead, &[a.clone(), b.clone()]).await;
    assert!(t.mark_solo(&dead, &a).await && t.mark_solo(&dead, &b).await);
    assert!(!t.mark_solo(&dead, &key("c")).await, "it is not in flight, and changes no mark");
    t.crash_all_but(&[&next]).await;
    assert_eq!([t.counts(&next, &a).await, t.counts(&next, &b).await], [[0, 1, 0], [0, 1, 1]]);
}

pub(super) async fn a_process_that_lives_takes_its_solo_crash_back(mut t: Fixture<'_>) {
    let [frozen, next] = [t.open("frozen").await, t.open("next").await];
    let a = key("a");
    t.taken(&frozen, &a).await;
    assert!(t.mark_solo(&frozen, &a).await);
    t.crash_all_but(&[&next]).await;
    assert_eq!(t.counts(&next, &a).await, [0, 1, 1], "it looks like a crash");
    for _ in 0..2 {
        assert!(!t.heartbeat(&frozen).await, "a lost session does not come back");
        assert_eq!(t.counts(&next, &a).await, [0, 1, 0], "its process lives: suspect, and no solo crash");
    }
}
