//! A host that is slow at first and then fast: what waited for it is fetched at the new pace.

use super::{deployment::Deployment, site::Site};
use crate::lab::Up;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// URLs that wait while the host is slow. At the slow pace, 2 s each, they would take four minutes.
const URLS: usize = 120;

/// Posts the URLs, makes the host fast, and returns how long it took from then on until all were finished.
fn finish_at_new_pace(up: &Up, site: &Site) -> Duration {
    site.is_slow.store(true, Ordering::SeqCst);
    let locations: Vec<String> =
        (0..URLS).map(|number| up.wait_accepted(&site.url(&format!("/ok/{number}")))).collect();
    // The limiter has an estimate of the slow pace by then.
    for location in &locations[..4] {
        up.wait_finished(location);
    }
    site.is_slow.store(false, Ordering::SeqCst);
    let began = Instant::now();
    for location in &locations {
        let record = up.wait_finished(location);
        assert_eq!(record["status"], "COMPLETED", "{record}");
        assert_eq!(record["processing"]["retry_count"], 0, "a wait counts no attempt: {record}");
    }
    began.elapsed()
}

#[test]
fn the_embedded_queue_follows_a_faster_host() {
    let site = Site::serve();
    let deployment = Deployment::single_process(&site, "");
    let took = finish_at_new_pace(&deployment.start().api, &site);
    assert!(took < Duration::from_secs(30), "{took:?} after the host had become fast");
}

#[test]
fn deferred_messages_of_rabbitmq_follow_a_faster_host() {
    let site = Site::serve();
    let deployment = Deployment::two_processes(&site, "", "pace");
    let took = finish_at_new_pace(&deployment.start().api, &site);
    // The last slow response, `max_defer`, and the URLs at the new pace.
    assert!(took < Duration::from_secs(60), "{took:?} after the host had become fast");
}
