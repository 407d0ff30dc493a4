//! Cases: batches of any size and content are answered element by element.

use super::fixture::*;

pub(super) async fn empty_batches_are_answered_empty(t: Fixture<'_>) {
    assert_eq!(t.claims(&[], TERM).await, [], "no claim");
    expect_ok(t.store.mark(&[]).await, "marking nothing");
    expect_ok(t.store.release(&[]).await, "releasing nothing");
    assert!(expect_ok(t.store.contains(&[]).await, "asking for nothing").is_empty(), "nothing was asked");
    assert_eq!(t.forget(&[]).await, 0, "nothing to forget");
    assert_eq!(t.sweep(10).await, 0, "nothing to sweep");
}

pub(super) async fn answers_are_in_order(t: Fixture<'_>) {
    let [a, b, c, d] = ["d", "c", "b", "a"].map(|end| format!("https://a.example/{end}"));
    t.mark(&b, "two", TTL).await;
    t.ours(&d, "three", "it is unknown").await;
    let batch = [claim(&a, "one"), claim(&b, "one"), claim(&c, "one"), claim(&d, "one")];
    let answers = t.claims(&batch, TERM).await;
    let right = matches!(
        &answers[..],
        [ClaimOutcome::Granted, ClaimOutcome::Seen { owner: seen, .. }, ClaimOutcome::Granted, ClaimOutcome::Taken { owner: has, .. }]
            if seen == "two" && has == "three"
    );
    assert!(right, "ours, seen, ours, taken was expected, the answers were {answers:?}");
}

pub(super) async fn a_url_twice_in_a_batch_counts_one_after_the_other(t: Fixture<'_>) {
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let batch = [claim(a, "one"), claim(a, "two"), claim(b, "two"), claim(a, "one")];
    let answers = t.claims(&batch, TERM).await;
    let right = matches!(
        &answers[..],
        [ClaimOutcome::Granted, ClaimOutcome::Taken { owner, .. }, ClaimOutcome::Granted, ClaimOutcome::Granted] if owner == "one"
    );
    assert!(right, "the first claim on a URL wins, the answers were {answers:?}");

    let again = t.now() + TTL * 2;
    expect_ok(t.store.mark(&[note(a, "one", TTL), note(a, "two", TTL * 2)]).await, "marking twice");
    t.seen(a, "x", "two", again).await;
    expect_ok(
        t.store.release(&[claim(b, "one"), claim(b, "two"), claim(b, "two")]).await,
        "releasing thrice",
    );
    t.ours(b, "x", "its owner has given it up").await;
}

pub(super) async fn odd_urls_are_kept_apart(t: Fixture<'_>) {
    let urls = odd_urls();
    let owner = |number: usize| format!("item-{number}");
    let batch: Vec<Claim> = urls.iter().enumerate().map(|(n, url)| claim(url, &owner(n))).collect();
    for (url, answer) in urls.iter().zip(t.claims(&batch, TERM).await) {
        assert_eq!(answer, ClaimOutcome::Granted, "there is no claim on {url:.80}");
    }
    let end = t.now() + TTL;
    for (number, url) in urls.iter().enumerate().step_by(2) {
        t.mark(url, &owner(number), TTL).await;
    }
    for (number, url) in urls.iter().enumerate() {
        match t.claim(url, "x").await {
            ClaimOutcome::Seen { owner: who, .. } if number % 2 == 0 => {
                assert_eq!(who, owner(number), "{url:.80}");
            }
            ClaimOutcome::Taken { owner: who, .. } if number % 2 == 1 => {
                assert_eq!(who, owner(number), "{url:.80}");
            }
            other => panic!("{url:.80} is {other:?} until {end:?}"),
        }
    }
    let known = expect_ok(t.store.forget(&urls).await, "forgetting");
    assert_eq!(known, urls.len() as u64, "each is known once");
}

pub(super) async fn odd_owners_are_kept(t: Fixture<'_>) {
    for (number, owner) in odd_texts().iter().enumerate().filter(|(_, owner)| owner.len() < 4096) {
        let url = format!("https://a.example/{number}");
        let end = t.now() + TERM;
        t.ours(&url, owner, "it is unknown").await;
        t.taken(&url, "another", owner, end).await;
        t.ours(&url, owner, "it is its own").await;
        let again = t.now() + TTL;
        t.mark(&url, owner, TTL).await;
        t.seen(&url, "another", owner, again).await;
    }
}

pub(super) async fn a_large_batch_is_answered_in_order(t: Fixture<'_>) {
    const MANY: usize = 12_000;
    let urls: Vec<String> = (0..MANY).map(|number| format!("https://a.example/{number}")).collect();
    let notes: Vec<SeenUrl> = urls.iter().step_by(3).map(|url| note(url, "one", TTL)).collect();
    expect_ok(t.store.mark(&notes).await, "marking many");
    let batch: Vec<Claim> = urls.iter().map(|url| claim(url, "two")).collect();
    for (number, answer) in t.claims(&batch, TERM).await.iter().enumerate() {
        let right = match answer {
            ClaimOutcome::Seen { .. } => number % 3 == 0,
            answer => number % 3 != 0 && *answer == ClaimOutcome::Granted,
        };
        assert!(right, "claim {number} of a large batch was answered {answer:?}");
    }
    expect_ok(t.store.release(&batch).await, "releasing many");
    let known = expect_ok(t.store.forget(&urls).await, "forgetting many");
    assert_eq!(known, notes.len() as u64, "claims were given up, notes stay");
}
