//! Cases: replays, drops, and crashes between the steps of a replay.

use super::fixture::*;

/// A ledger with a dead letter of the message `a`.
async fn with_letter(t: &Fixture<'_>) -> (SessionId, DeadLetterId) {
    let one = t.open("one").await;
    let letter = t.dead_lettered(&one, &letter(&key("a"))).await;
    (one, letter)
}

/// Expects that the letter of the message `a` is closed: its message is not run again.
async fn closed(t: &Fixture<'_>, session: &SessionId, id: DeadLetterId) {
    assert_eq!((t.letters().await, t.body(id).await), (vec![], None), "nothing is left of it");
    assert_eq!(expect_ok(t.store.count_dead_letters(QUEUE).await, "counting"), 0);
    assert_eq!(t.take(session, &key("a")).await, TakeOutcome::Closed, "a late delivery is not run");
    assert_eq!(
        t.add_dead_letters(session, &letter(&key("a"))).await,
        AddDeadLetterOutcome::Closed,
        "and does not die again"
    );
    assert_eq!(t.begin_replay(id).await, ReplayOutcome::Closed);
    assert!(!t.drop_letter(id).await);
}

pub(super) async fn a_replay_closes_its_letter(t: Fixture<'_>) {
    let (one, id) = with_letter(&t).await;
    let replay = t.replaying(id, 1).await;
    assert_eq!(t.letters().await[0].epoch, 1, "the letter is there until the replay has ended");
    assert_eq!(t.body(id).await, Some(b"a".to_vec()));
    assert!(t.end_replay(replay).await);
    assert!(t.end_replay(replay).await, "a repetition");
    closed(&t, &one, id).await;
    // The replayed message is another one, and may die again.
    let again = t.dead_lettered(&one, &letter(&key("a, replayed"))).await;
    assert!(again > id, "{again} is a new letter");
    t.replaying(again, 1).await;
}

pub(super) async fn a_crash_after_the_mark_leaves_the_letter(mut t: Fixture<'_>) {
    let (one, id) = with_letter(&t).await;
    let lost = t.replaying(id, 1).await;
    let until = t.now() + POLICY.replay_lease;
    t = t.reopened().await;
    match t.begin_replay(id).await {
        ReplayOutcome::Busy { until: busy } => t.about(busy + t.slack(), until, "the end of its lease"),
        other => panic!("another replay has begun, the answer was {other:?}"),
    }
    t.pass_all_of(POLICY.replay_lease).await;
    let replay = t.replaying(id, 2).await;
    assert!(!t.end_replay(lost).await, "the crashed replay comes back, and a later epoch has begun");
    assert_eq!(t.letters().await.len(), 1);
    assert!(t.end_replay(replay).await);
    assert!(!t.end_replay(lost).await, "its epoch is over");
    closed(&t, &one, id).await;
}

pub(super) async fn a_crash_after_the_publish_leaves_the_letter(mut t: Fixture<'_>) {
    let (one, id) = with_letter(&t).await;
    t.replaying(id, 1).await;
    // Published under another key, and the process crashes before the replay has ended.
    t = t.reopened().await;
    let copy = key("a, epoch 1");
    assert_eq!(t.counts(&one, &copy).await, [0, 0, 0], "the copy runs with nothing counted");
    assert!(t.settle(&one, &copy, Settlement::Done).await);
    assert_eq!(t.letters().await[0].epoch, 1, "the letter is listed: a duplicate, not a loss");
    t.pass_all_of(POLICY.replay_lease).await;
    let replay = t.replaying(id, 2).await;
    assert!(t.end_replay(replay).await);
    closed(&t, &one, id).await;
}

pub(super) async fn racing_replays_have_one_winner(mut t: Fixture<'_>) {
    let one = t.open("one").await;
    let letters: Vec<NewDeadLetter> = (0..30).map(|number| letter(&key(&number.to_string()))).collect();
    expect_ok(t.store.add_dead_letters(&one, &letters).await, "adding");
    let ids: Vec<DeadLetterId> = t.letters().await.iter().map(|letter| letter.id).collect();
    let answers = t
        .race(6, |worker, ledger| {
            let mut ids = ids.clone();
            if worker % 2 == 1 {
                ids.reverse();
            }
            async move { expect_ok(ledger.begin_replay(&ids).await, "beginning a replay in a race") }
        })
        .await;
    let mut begun: Vec<Replay> = Vec::new();
    for outcome in answers.iter().flatten() {
        match outcome {
            ReplayOutcome::Begun(replay) => begun.push(*replay),
            ReplayOutcome::Busy { .. } => {}
            ReplayOutcome::Closed => panic!("no letter is closed"),
        }
    }
    begun.sort_by_key(|replay| replay.letter);
    let expected: Vec<Replay> = ids.iter().map(|letter| Replay { letter: *letter, epoch: 1 }).collect();
    assert_eq!(begun, expected, "each letter is replayed once");
    let ended = expect_ok(t.store.end_replay(&begun).await, "ending replays");
    assert!(ended.iter().all(|ended| *ended) && t.letters().await.is_empty());
}

pub(super) async fn a_dropped_letter_is_closed(t: Fixture<'_>) {
    let (one, id) = with_letter(&t).await;
    let other = t.dead_lettered(&one, &letter(&key("b"))).await;
    let dropped = t.store.drop_dead_letters(&[DeadLetterId(0), id]).await;
    assert_eq!(expect_ok(dropped, "dropping"), [false, true]);
    assert_eq!(t.letters().await[0].id, other, "others stay");
    assert!(t.drop_letter(other).await);
    closed(&t, &one, id).await;
}

pub(super) async fn a_letter_in_replay_is_not_dropped(mut t: Fixture<'_>) {
    let (one, id) = with_letter(&t).await;
    let replay = t.replaying(id, 1).await;
    assert!(!t.drop_letter(id).await, "its message may be in its queue already");
    t.pass_all_of(POLICY.replay_lease).await;
    assert!(t.drop_letter(id).await, "the replay has crashed");
    closed(&t, &one, id).await;
    assert!(t.end_replay(replay).await, "the replay comes back, and the letter is closed");
}

pub(super) async fn unknown_letters_are_closed(t: Fixture<'_>) {
    for id in [0, 17, u64::from(u32::MAX)].map(DeadLetterId) {
        assert_eq!(t.begin_replay(id).await, ReplayOutcome::Closed);
        assert!(!t.drop_letter(id).await);
        assert_eq!(t.body(id).await, None);
    }
}
