//! SIGKILL at twenty random times: the crawl loses no page, indexes no page twice, and stays polite.

use crate::lab::{Lab, was_killed};
use crawlway_demo_web::Plan;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

const KILLS: u64 = 20;

#[test]
fn twenty_kills_lose_nothing_and_keep_the_rate_limit() {
    let lab = Lab::new(Plan::crash(), Duration::from_millis(25));
    let random = RandomState::new();
    for kill in 0..KILLS {
        lab.forget_crashes();
        let mut child = lab.start(lab.crawl());
        let number = random.hash_one(kill);
        let (before, begun) = (lab.requests(), Instant::now());
        // Half of the kills come after a number of requests, the others early, during start and recovery.
        let requests = 20 + usize::try_from(number % 140).unwrap();
        let early = Duration::from_millis(number % 700);
        loop {
            let due =
                if kill % 2 == 0 { lab.requests() >= before + requests } else { begun.elapsed() >= early };
            if due {
                break;
            }
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0), "the crawl failed before kill {kill}");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "no progress before kill {kill}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(was_killed(status) || status.code() == Some(0), "{status}");
    }
    lab.forget_crashes();
    lab.crawl_to_end();
    lab.check();
}
