//! Cases: claims and marks, step by step. Each row is a guarantee, on a URL of its own.

use super::fixture::*;
use Step::*;

/// A call on the URL of a row, with the expected answer.
enum Step {
    /// The owner's claim succeeds.
    Ours(&'static str),
    /// The same with this term.
    OursFor(&'static str, Duration),
    /// The first owner's claim is refused because of the second's claim.
    Taken(&'static str, &'static str),
    /// The first owner's claim is refused because of the second's mark.
    Crawled(&'static str, &'static str),
    /// The owner marks it as crawled with this TTL.
    Mark(&'static str, Duration),
    /// The owner releases its claim.
    Release(&'static str),
    /// Time passes.
    Pass(Duration),
    /// Time and the slack pass.
    PassAllOf(Duration),
}

/// A row for each guarantee.
macro_rules! follow {
    ($t:ident: $($promise:literal => $($step:expr),+;)*) => {
        follow($t, &[$(($promise, &[$($step),+])),*]).await
    };
}

async fn follow(mut t: Fixture<'_>, rows: &[(&str, &[Step])]) {
    for (promise, steps) in rows {
        let url = format!("https://a.example/{promise}");
        let mut due = t.now();
        for step in *steps {
            let now = t.now();
            match step {
                Ours(owner) => {
                    due = now + TERM;
                    t.ours(&url, owner, promise).await;
                }
                OursFor(owner, term) => {
                    due = now + *term;
                    let told = t.claims(&[claim(&url, owner)], *term).await;
                    assert_eq!(told, [ClaimOutcome::Granted], "{promise}: {owner} claims it");
                }
                Taken(asks, has) => t.taken(&url, asks, has, due).await,
                Crawled(asks, has) => t.seen(&url, asks, has, due).await,
                Mark(owner, ttl) => {
                    due = now + *ttl;
                    t.mark(&url, owner, *ttl).await;
                }
                Release(owner) => t.release(&url, owner).await,
                Pass(time) => t.pass(*time).await,
                PassAllOf(time) => t.pass_all_of(*time).await,
            }
        }
    }
}

pub(super) async fn a_claim_is_one_owners_for_its_term(t: Fixture<'_>) {
    const LATE: Duration = Duration::from_secs(110);
    follow! { t:
        "an unknown URL can be claimed" => Ours("one");
        "another owner is told" => Ours("one"), Taken("two", "one"), Pass(LATE), Taken("two", "one");
        "a claim ends with its term" => Ours("one"), PassAllOf(TERM), Ours("two"), Taken("one", "two");
        "claiming again renews the term" => Ours("one"), Pass(LATE), Ours("one"), Taken("two", "one"), Pass(LATE),
            Ours("one"), Taken("two", "one"), Pass(LATE), Ours("one"), Taken("two", "one");
        "claiming again may shorten the term" => Ours("one"), OursFor("one", TERM / 4), PassAllOf(TERM / 4), Ours("two");
        "a lost claim is fenced by the next owner" => Ours("one"), PassAllOf(TERM), Ours("two"), Release("one"),
            Taken("one", "two");
        "a refused claim renews nothing" => Ours("one"), Pass(TERM / 2), Taken("two", "one"), PassAllOf(TERM / 2),
            Ours("three");
    }
}

pub(super) async fn a_claim_is_released_by_its_owner_alone(t: Fixture<'_>) {
    follow! { t:
        "releasing frees a URL" => Ours("one"), Release("one"), Ours("two");
        "releasing what another has changes nothing" => Ours("one"), Release("two"), Taken("two", "one");
        "releasing what is seen changes nothing" => Ours("one"), Mark("one", TTL), Release("one"), Crawled("two", "one");
        "releasing what is unknown changes nothing" => Release("one"), Ours("two"), Release("two"), Release("two"),
            Ours("one");
    }
}

pub(super) async fn a_marked_url_is_seen_for_its_time(t: Fixture<'_>) {
    follow! { t:
        "a marked URL is seen by all" => Ours("one"), Mark("one", TTL), Crawled("two", "one"), Pass(TTL - MARGIN),
            Crawled("three", "one");
        "even its own owner is told" => Ours("one"), Mark("one", TTL), Crawled("one", "one");
        "an unclaimed URL can be marked" => Mark("one", TTL), Crawled("two", "one");
        "marking ends the claim of another" => Ours("one"), Mark("two", TERM / 2), Crawled("one", "two"),
            PassAllOf(TERM / 2), Ours("three");
        "a mark ends with its time to live" => Mark("one", TTL), PassAllOf(TTL), Ours("two"), Taken("three", "two");
        "the later mark counts" => Mark("one", TTL), Pass(MARGIN), Mark("two", TTL * 2), Crawled("x", "two"),
            Mark("three", TTL / 2), Crawled("x", "three"), PassAllOf(TTL / 2), Ours("x");
        "a time to live of nothing is over at once" => Ours("one"), Mark("one", Duration::ZERO),
            PassAllOf(Duration::ZERO), Ours("two");
    }
}
