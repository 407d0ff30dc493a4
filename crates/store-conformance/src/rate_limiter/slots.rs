//! Cases: a ticket that has to wait gets a slot of its own, and a permit at that time.

use super::fixture::*;

pub(super) async fn a_slow_request_is_not_polled(mut t: Fixture<'_>) {
    let g = group("polled");
    let brief = RateLimits::one_at_a_time(MOMENT);
    let start = t.now();
    let _slow = t.goes(&g, &brief, "the group is free").await;
    let waiting = ticket();
    let lease = t.store.policy().lease;
    let mut asked = 0;
    loop {
        match t.ask(&g, waiting, &brief).await {
            Reservation::Granted(_) => break,
            Reservation::NotBefore { at, .. } => t.pass_until(at).await,
        }
        asked += 1;
        assert!(asked < 40, "it was told to come back {asked} times while one request was in flight");
    }
    let waited = t.now().since(start);
    assert!(
        waited >= lease,
        "the lease of the request in flight ends after {lease:?}, it went after {waited:?}"
    );
    assert!(waited <= lease + lease / 2, "the lease has ended after {lease:?}, it went after {waited:?}");
}
