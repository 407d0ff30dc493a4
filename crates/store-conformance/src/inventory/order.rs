//! Cases: precedence of several messages about one URL.

use super::fixture::*;

fn superseded(by: &str) -> BeginOutcome {
    BeginOutcome::Superseded { by: by.to_owned() }
}

pub(super) async fn an_older_message_is_superseded(t: Fixture<'_>) {
    let newer = t.attempt(&message("a-newer", 10), 11).await;
    let before = t.record().await;
    assert_eq!(t.begin(&message("z-older", 5), 12).await, superseded("a-newer"), "while the newer is at it");
    assert_eq!(t.record().await, before, "nothing has changed");
    t.fail(&newer, "timed out", 13).await;
    assert_eq!(t.begin(&message("z-older", 5), 14).await, superseded("a-newer"), "while the newer waits");
    assert_eq!(t.record().await.status, RecordStatus::FailedRetryable, "nothing has changed");
    let before = t.completed(&message("a-newer", 10), &page("hello"), 15).await;
    assert_eq!(t.begin(&message("z-older", 5), 16).await, superseded("a-newer"), "after the newer has ended");
    assert_eq!(t.record().await, before, "nothing has changed");
}

pub(super) async fn a_finished_message_is_superseded_by_a_newer_one(t: Fixture<'_>) {
    t.completed(&message("m-1", 1), &page("first"), 2).await;
    let newer = t.attempt(&message("m-2", 3), 4).await;
    // Its acknowledgement was lost.
    assert_eq!(t.begin(&message("m-1", 1), 5).await, superseded("m-2"), "it is not fetched again");
    assert_eq!(
        t.complete(&newer, &page("second"), 6).await,
        ended(RecordStatus::Completed, 0),
        "the newer goes on"
    );
}

pub(super) async fn a_failed_message_is_superseded_by_a_newer_one(t: Fixture<'_>) {
    let older = t.attempt(&message("m-1", 1), 2).await;
    t.fail(&older, "timed out", 3).await;
    let newer = t.attempt(&message("m-2", 4), 5).await;
    // It is redelivered, and the two must not take the record from each other for ever.
    assert_eq!(t.begin(&message("m-1", 1), 6).await, superseded("m-2"), "the newer does what it asked for");
    assert_eq!(
        t.fail(&newer, "refused", 7).await,
        ended(RecordStatus::FailedRetryable, 1),
        "the newer's first"
    );
    assert_eq!(t.begin(&message("m-1", 1), 8).await, superseded("m-2"), "still");
}

pub(super) async fn of_one_time_the_greater_id_is_newer(t: Fixture<'_>) {
    // In bytewise order.
    let ids = ["-", "10", "9", "B", "Z", "_", "a", "aB", "ab", "b", "\u{e9}", "\u{ff21}", "\u{10000}"];
    for (place, id) in ids.iter().enumerate() {
        t.attempt(&message(id, 1), 2).await;
        for before in &ids[..place] {
            assert_eq!(t.begin(&message(before, 1), 3).await, superseded(id), "{before} is older than {id}");
        }
    }
}

pub(super) async fn a_time_in_the_future_is_that_of_its_beginning(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 1_000_000), 10).await;
    let work = LatestAttempt { message_id: "m-1".to_owned(), requested_at: at(10), attempt: attempt.number };
    assert_eq!(t.record().await.latest_attempt, Some(work), "no message is of the future");
    t.complete(&attempt, &page("hello"), 11).await;
    t.attempt(&message("m-2", 12), 13).await;
    assert_eq!(
        t.begin(&message("m-0", 9), 14).await,
        superseded("m-2"),
        "older ones are told from newer ones"
    );
}
