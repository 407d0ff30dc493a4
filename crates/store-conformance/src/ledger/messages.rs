//! Cases: messages in flight, and what is counted about them.

use super::fixture::*;

pub(super) async fn a_done_message_leaves_nothing_behind(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    assert_eq!(t.taken(&one, &key("a")).await, History::default(), "nothing is known about it");
    assert!(t.settle(&one, &key("a"), failed("timeout")).await);
    assert_eq!(t.counts(&one, &key("a")).await, [1, 0, 0]);
    assert!(t.settle(&one, &key("a"), Settlement::Done).await);
    assert!(t.settle(&one, &key("a"), Settlement::Done).await, "a repetition");
    assert_eq!(t.crash_all_but(&[&two]).await[0].suspects, [], "it was not in flight");
    assert_eq!(t.taken(&two, &key("a")).await, History::default());
}

pub(super) async fn only_messages_in_hand_become_suspect(mut t: Fixture<'_>) {
    let [dead, next] = [t.open("dead").await, t.open("next").await];
    let [a, b, c, d] = ["a", "b", "c", "d"].map(key);
    t.take_all(&dead, &[a.clone(), b.clone(), c.clone(), d.clone()]).await;
    assert!(t.settle(&dead, &a, Settlement::Done).await);
    assert!(t.settle(&dead, &b, failed("timeout")).await);
    assert!(t.settle(&dead, &c, Settlement::Returned).await);
    assert_eq!(t.crash_all_but(&[&next]).await[0].suspects, from_ref(&d));
    for (message, expected) in [(a, [0, 0, 0]), (b, [1, 0, 0]), (c, [0, 0, 0]), (d, [0, 1, 0])] {
        assert_eq!(t.counts(&next, &message).await, expected, "{}", message.key());
    }
}

pub(super) async fn a_failed_attempt_counts_once(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let a = key("a");
    t.taken(&one, &a).await;
    let first = t.now();
    assert!(t.settle(&one, &a, failed("first")).await);
    assert!(t.settle(&one, &a, failed("first")).await, "a repetition");
    assert_eq!(t.counts(&two, &a).await, [1, 0, 0], "a repetition counts nothing");
    t.pass(LEASE / 3).await;
    let last = t.now();
    assert!(t.settle(&two, &a, failed("last")).await);
    let history = t.taken(&one, &a).await;
    assert_eq!(counts(&history), [2, 0, 0]);
    for (failure, error, at) in [(history.first_error, "first", first), (history.last_error, "last", last)] {
        let failure = failure.unwrap_or_else(|| panic!("the error `{error}` must be kept"));
        assert_eq!(failure.error, error);
        t.about(failure.at, at, "the time of the failure");
    }
    let long = "é".repeat(20_000);
    for (error, kept) in [(WITH_NUL, "before".len()), ("", 0), (&long, 16 << 10)] {
        assert!(t.settle(&one, &a, failed(error)).await);
        let error = t.taken(&one, &a).await.last_error.expect("an error").error;
        assert!(error.len() >= kept && error.len() <= 16 << 10, "{} bytes of an error", error.len());
    }
}

pub(super) async fn returned_messages_count_nothing(t: Fixture<'_>) {
    let one = t.open("one").await;
    let a = key("a");
    for _ in 0..5 {
        assert_eq!(t.counts(&one, &a).await, [0, 0, 0]);
        assert!(t.settle(&one, &a, Settlement::Returned).await);
    }
    t.taken(&one, &a).await;
    assert!(t.settle(&one, &a, failed("timeout")).await);
    t.taken(&one, &a).await;
    assert!(t.settle(&one, &a, Settlement::Returned).await);
    assert_eq!(t.counts(&one, &a).await, [1, 0, 0], "and what was counted stays");
}

pub(super) async fn an_expired_lease_makes_suspect(t: Fixture<'_>) {
    let one = t.open("one").await;
    let a = key("a");
    t.taken(&one, &a).await;
    assert!(t.mark_solo(&one, &a).await);
    assert!(t.settle(&one, &a, Settlement::LeaseExpired).await);
    assert!(t.settle(&one, &a, Settlement::LeaseExpired).await, "a repetition");
    assert_eq!(t.counts(&one, &a).await, [0, 1, 0], "no solo crash: its process lives");
}

pub(super) async fn a_message_taken_from_a_living_session_is_suspect(t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let a = key("a");
    t.taken(&one, &a).await;
    assert_eq!(t.counts(&two, &a).await, [0, 1, 0], "its lease at the broker has ended");
    assert!(!t.settle(&one, &a, Settlement::Done).await, "it is in other hands");
    assert!(!t.settle(&one, &a, failed("late")).await);
    assert!(!t.mark_solo(&one, &a).await);
    assert!(t.mark_solo(&two, &a).await && t.settle(&two, &a, Settlement::Returned).await);
    assert_eq!(t.counts(&one, &a).await, [0, 1, 0], "late verdicts change nothing");
}

pub(super) async fn a_message_taken_from_an_ended_session_counts_once(mut t: Fixture<'_>) {
    let [dead, next] = [t.open("dead").await, t.open("next").await];
    let [a, b] = ["a", "b"].map(key);
    t.take_all(&dead, &[a.clone(), b.clone()]).await;
    assert!(t.mark_solo(&dead, &a).await);
    for _ in 0..5 {
        t.pass(LEASE / 3).await;
        assert!(t.heartbeat(&next).await);
    }
    assert_eq!(t.counts(&next, &a).await, [0, 1, 1], "its session has ended, and no process has reaped it");
    assert_eq!(t.crash_all_but(&[&next]).await, [], "its loss is counted already");
    assert_eq!(t.counts(&next, &b).await, [0, 1, 0], "and what else it had in flight");
    assert!(!t.heartbeat(&dead).await);
    assert!(t.settle(&next, &a, Settlement::Returned).await);
    assert_eq!(t.counts(&next, &a).await, [0, 1, 0], "the solo crash was none");
}

pub(super) async fn taking_again_counts_nothing(mut t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    let a = key("a");
    t.taken(&one, &a).await;
    assert!(t.mark_solo(&one, &a).await);
    assert_eq!(t.counts(&one, &a).await, [0, 0, 0]);
    t.crash_all_but(&[&two]).await;
    assert_eq!(t.counts(&two, &a).await, [0, 1, 0], "taking it again has ended its solo mark");
}

pub(super) async fn batches_are_answered_in_order(t: Fixture<'_>) {
    let [one, two] = [t.open("one").await, t.open("two").await];
    assert!(t.take_all(&one, &[]).await.is_empty());
    assert!(expect_ok(t.store.settle(&one, &[]).await, "settling nothing").is_empty());
    assert!(expect_ok(t.store.add_dead_letters(&one, &[]).await, "adding no dead letter").is_empty());
    assert!(expect_ok(t.store.bodies(&[]).await, "reading nothing").is_empty());
    assert!(expect_ok(t.store.begin_replay(&[]).await, "replaying nothing").is_empty());
    assert!(expect_ok(t.store.end_replay(&[]).await, "replaying nothing").is_empty());
    assert!(expect_ok(t.store.drop_dead_letters(&[]).await, "dropping nothing").is_empty());
    let mut keys: Vec<MessageKey> = (0..1000).map(|number| key(&format!("{number:04}"))).collect();
    keys.reverse();
    let dead = t.dead_lettered(&one, &letter(&keys[3])).await;
    t.taken(&two, &keys[5]).await;
    t.taken(&two, &keys[700]).await;
    assert!(t.mark_solo(&two, &keys[700]).await);
    for (number, taken) in t.take_all(&one, &keys).await.into_iter().enumerate() {
        let expected = match number {
            3 => taken == TakeOutcome::Dead(dead),
            5 => taken == TakeOutcome::Taken(History { losses: 1, ..History::default() }),
            700 => matches!(taken, TakeOutcome::Busy { .. }),
            _ => taken == TakeOutcome::Taken(History::default()),
        };
        assert!(expected, "message {number}: {taken:?}");
    }
    let settlements: Vec<_> = keys.iter().map(|key| (key.clone(), Settlement::Done)).collect();
    let settled = expect_ok(t.store.settle(&one, &settlements).await, "settling a large batch");
    let fenced: Vec<usize> = (0..1000).filter(|number| !settled[*number]).collect();
    assert_eq!(fenced, [700], "one of them is in other hands");
}

pub(super) async fn odd_keys_are_kept_apart(t: Fixture<'_>) {
    let one = t.open("one").await;
    let mut keys: Vec<MessageKey> = odd_urls()
        .iter()
        .filter(|url| url.len() <= 512)
        .flat_map(|url| {
            ["a", "A", "a:b", "a{1}", "日"].map(|queue| MessageKey::new(queue, url).expect("a key"))
        })
        .collect();
    keys.push(MessageKey::new("a", "b c").expect("a key"));
    keys.push(MessageKey::new("a", format!("{}1", "k".repeat(511))).expect("a key"));
    keys.push(MessageKey::new("a", format!("{}2", "k".repeat(511))).expect("a key"));
    for (number, message) in keys.iter().enumerate() {
        assert_eq!(t.taken(&one, message).await, History::default(), "{message:?}");
        assert!(t.settle(&one, message, failed(&number.to_string())).await, "{message:?}");
    }
    for (number, message) in keys.iter().enumerate() {
        let history = t.taken(&one, message).await;
        assert_eq!(history.last_error.map(|failure| failure.error), Some(number.to_string()), "{message:?}");
    }
}

pub(super) async fn racing_sessions_count_every_loss(mut t: Fixture<'_>) {
    const SESSIONS: usize = 8;
    for number in 0..SESSIONS {
        t.open(&number.to_string()).await;
    }
    let messages: Vec<MessageKey> = (0..50).map(|number| key(&number.to_string())).collect();
    let answers = t
        .race(SESSIONS, |worker, ledger| {
            let mut messages = messages.clone();
            if worker % 2 == 1 {
                messages.reverse();
            }
            async move {
                let taken = ledger.take(&session(&worker.to_string()), &messages).await;
                let mut taken = expect_ok(taken, "taking in a race");
                if worker % 2 == 1 {
                    taken.reverse();
                }
                taken
            }
        })
        .await;
    for number in 0..messages.len() {
        let mut losses: Vec<u32> = Vec::new();
        for taken in answers.iter().map(|answers| &answers[number]) {
            match taken {
                TakeOutcome::Taken(history) => losses.push(history.losses),
                other => panic!("message {number} must be taken by each in turn, the answer was {other:?}"),
            }
        }
        losses.sort_unstable();
        assert_eq!(losses, [0, 1, 2, 3, 4, 5, 6, 7], "each takes message {number} from the one before");
    }
}
