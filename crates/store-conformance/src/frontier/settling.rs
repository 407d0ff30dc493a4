//! Cases: settling a URL, and what is counted.

use super::fixture::*;

pub(super) async fn a_made_up_receipt_has_no_effect((t, id): Crawling<'_>) {
    t.seed(&id, "a.example").await;
    let taken = t.take("one waits").await;
    let Receipt { entry, claim: taking } = taken.receipt;
    let before = t.counts(&id).await;
    let other_taking = Receipt { entry, claim: taking.wrapping_add(1000) };
    for made_up in
        [other_taking, Receipt { entry: entry + 1000, claim: taking }, Receipt { entry: u64::MAX, claim: 0 }]
    {
        let answer = expect_ok(t.store.settle(&[(made_up, done())]).await, "settling what is made up");
        assert_eq!(answer, [None], "{made_up:?} is made up, {:?} is real", taken.receipt);
        let held = expect_ok(t.store.extend(&[made_up]).await, "extending what is made up");
        assert_eq!(held, [false], "{made_up:?} is made up");
    }
    assert_eq!(t.counts(&id).await, before, "nothing has changed");
    t.settle(&taken, done()).await;
}
