//! Cases: batches are answered element by element, whatever is in them.

use super::trial::*;

pub(super) async fn empty_batches_are_answered_empty(t: Trial<'_>) {
    assert_eq!(t.claims(&[], TERM).await, [], "no claim");
    works(t.store.mark(&[]).await, "marking nothing");
    works(t.store.release(&[]).await, "releasing nothing");
    assert!(works(t.store.known(&[]).await, "asking for nothing").is_empty(), "nothing was asked");
    assert_eq!(t.forget(&[]).await, 0, "nothing to forget");
    assert_eq!(t.sweep(10).await, 0, "nothing to sweep");
}

pub(super) async fn answers_are_in_order(t: Trial<'_>) {
    let [a, b, c, d] = ["d", "c", "b", "a"].map(|end| format!("https://a.example/{end}"));
    t.mark(&b, "two", TTL).await;
    t.ours(&d, "three", "it is unknown").await;
    let batch = [claim(&a, "one"), claim(&b, "one"), claim(&c, "one"), claim(&d, "one")];
    let answers = t.claims(&batch, TERM).await;
    let right = matches!(
        &answers[..],
        [Claimed::Ours, Claimed::Seen { owner: seen, .. }, Claimed::Ours, Claimed::Taken { owner: has, .. }]
            if seen == "two" && has == "three"
    );
    assert!(right, "ours, seen, ours, taken was expected, the answers were {answers:?}");
}

pub(super) async fn a_url_twice_in_a_batch_counts_one_after_the_other(t: Trial<'_>) {
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let batch = [claim(a, "one"), claim(a, "two"), claim(b, "two"), claim(a, "one")];
    let answers = t.claims(&batch, TERM).await;
    let right = matches!(
        &answers[..],
        [Claimed::Ours, Claimed::Taken { owner, .. }, Claimed::Ours, Claimed::Ours] if owner == "one"
    );
    assert!(right, "the first claim on a URL wins, the answers were {answers:?}");

    let again = t.now() + TTL * 2;
    works(t.store.mark(&[note(a, "one", TTL), note(a, "two", TTL * 2)]).await, "marking twice");
    t.seen(a, "x", "two", again).await;
    works(t.store.release(&[claim(b, "one"), claim(b, "two"), claim(b, "two")]).await, "releasing thrice");
    t.ours(b, "x", "its owner has given it up").await;
}

pub(super) async fn odd_urls_are_kept_apart(t: Trial<'_>) {
    let urls = odd_urls();
    let owner = |number: usize| format!("item-{number}");
    let batch: Vec<Claim> = urls.iter().enumerate().map(|(n, url)| claim(url, &owner(n))).collect();
    for (url, answer) in urls.iter().zip(t.claims(&batch, TERM).await) {
        assert_eq!(answer, Claimed::Ours, "there is no claim on {url:.80}");
    }
    let end = t.now() + TTL;
    for (number, url) in urls.iter().enumerate().step_by(2) {
        t.mark(url, &owner(number), TTL).await;
    }
    for (number, url) in urls.iter().enumerate() {
        match t.claim(url, "x").await {
            Claimed::Seen { owner: who, .. } if number % 2 == 0 => {
                assert_eq!(who, owner(number), "{url:.80}");
            }
            Claimed::Taken { owner: who, .. } if number % 2 == 1 => {
                assert_eq!(who, owner(number), "{url:.80}");
            }
            other => panic!("{url:.80} is {other:?} until {end:?}"),
        }
    }
    let known = works(t.store.forget(&urls).await, "forgetting");
    assert_eq!(known, urls.len() as u64, "each is known once");
}

pub(super) async fn odd_owners_are_kept(t: Trial<'_>) {
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

pub(super) async fn a_large_batch_is_answered_in_order(t: Trial<'_>) {
    const MANY: usize = 12_000;
    let urls: Vec<String> = (0..MANY).map(|number| format!("https://a.example/{number}")).collect();
    let notes: Vec<Seen> = urls.iter().step_by(3).map(|url| note(url, "one", TTL)).collect();
    works(t.store.mark(&notes).await, "marking many");
    let batch: Vec<Claim> = urls.iter().map(|url| claim(url, "two")).collect();
    for (number, answer) in t.claims(&batch, TERM).await.iter().enumerate() {
        let right = match answer {
            Claimed::Seen { .. } => number % 3 == 0,
            answer => number % 3 != 0 && *answer == Claimed::Ours,
        };
        assert!(right, "claim {number} of a large batch was answered {answer:?}");
    }
    works(t.store.release(&batch).await, "releasing many");
    let known = works(t.store.forget(&urls).await, "forgetting many");
    assert_eq!(known, notes.len() as u64, "claims were given up, notes stay");
}
