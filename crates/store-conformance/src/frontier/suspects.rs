//! Cases: a lost worker counts no attempt and makes its URLs suspect; only solo crashes end a URL as dead.

use super::fixture::*;
use crawlway_store::suspects::slots_for;

/// Loses the workers of all URLs in flight.
async fn lose(t: &mut Fixture<'_>, by_hand: bool) {
    if by_hand {
        assert!(t.take_back().await > 0, "something is in flight");
    } else {
        t.pass(LEASE + MOMENT).await;
    }
}

pub(super) async fn suspects_come_in_halving_groups((mut t, id): Crawling<'_>) {
    const ALL: usize = 16;
    // Some on hosts of their own, and some on one.
    let host =
        |number: usize| if number < 8 { format!("{number}.example") } else { "all.example".to_owned() };
    t.adds(&id, &(0..ALL).map(|number| url(&host(number), &number.to_string())).collect::<Vec<_>>()).await;
    assert_eq!(t.next(ALL, 100).await.len(), ALL, "a URL that was never lost takes one place");
    lose(&mut t, true).await;
    for by_hand in [false, true] {
        let group = t.next(ALL, 100).await;
        let places: usize = group.iter().map(|taken| slots_for(taken.losses)).sum();
        assert!(group.iter().all(|taken| taken.losses > 0), "all were lost: {group:?}");
        assert!(!group.is_empty() && places <= ALL, "{} take {places} of {ALL} places", group.len());
        lose(&mut t, by_hand).await;
    }
    assert_eq!(t.next(1, 100).await.len(), 1, "the first always fits");
    lose(&mut t, true).await;
    // Nothing is held back for good.
    let mut ended = 0;
    while ended < ALL {
        let group = t.next(ALL, 100).await;
        assert!(!group.is_empty(), "{} still wait", ALL - ended);
        for taken in group {
            t.settle(&taken, done()).await;
            ended += 1;
        }
    }
    assert_eq!(t.four(&id).await, [0, 0, ALL as u64, 0], "none is dead");
}
