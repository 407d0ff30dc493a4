//! Cases: who has a URL, step by step. Each row is a promise, on a URL of its own.

use super::trial::*;
use Step::*;

/// What happens to the URL of a row, and what its claimant is told.
enum Step {
    /// This owner claims it and gets it.
    Ours(&'static str),
    /// The same, for this term.
    OursFor(&'static str, Duration),
    /// This one claims it, and is told that the second has it, and until when.
    Taken(&'static str, &'static str),
    /// This one claims it, and is told that the second has crawled it, and until when it stays seen.
    Crawled(&'static str, &'static str),
    /// This owner marks it as crawled, for this long.
    Mark(&'static str, Duration),
    /// This owner gives its claim up.
    Release(&'static str),
    /// So much time passes,
    Pass(Duration),
    /// or so much and the slack.
    PassAllOf(Duration),
}

/// A row for each promise.
macro_rules! follow {
    ($t:ident: $($promise:literal => $($step:expr),+;)*) => {
        follow($t, &[$(($promise, &[$($step),+])),*]).await
    };
}

async fn follow(mut t: Trial<'_>, rows: &[(&str, &[Step])]) {
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
                    assert_eq!(told, [Claimed::Ours], "{promise}: {owner} claims it");
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

pub(super) async fn a_claim_is_one_owners_for_its_term(t: Trial<'_>) {
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

pub(super) async fn a_claim_is_released_by_its_owner_alone(t: Trial<'_>) {
    follow! { t:
        "releasing frees a URL" => Ours("one"), Release("one"), Ours("two");
        "releasing what another has changes nothing" => Ours("one"), Release("two"), Taken("two", "one");
        "releasing what is seen changes nothing" => Ours("one"), Mark("one", TTL), Release("one"), Crawled("two", "one");
        "releasing what is unknown changes nothing" => Release("one"), Ours("two"), Release("two"), Release("two"),
            Ours("one");
    }
}

pub(super) async fn a_marked_url_is_seen_for_its_time(t: Trial<'_>) {
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
