//! A crawl that is killed again and again loses nothing, has nothing twice, and stays polite.

use crate::lab::{Lab, was_killed};
use crawlway_demo_web::Plan;
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

const KILLS: u64 = 20;

#[test]
fn twenty_kills_lose_nothing_and_keep_the_gate() {
    let lab = Lab::new(Plan::crash(), Duration::from_millis(25));
    let random = RandomState::new();
    for kill in 0..KILLS {
        let mut child = lab.start(lab.crawl());
        let number = random.hash_one(kill);
        let (before, begun) = (lab.visits(), Instant::now());
        // Half of the kills come after so many requests, wherever the crawl is by then; the others early, in the
        // middle of opening and recovering.
        let requests = 20 + usize::try_from(number % 140).unwrap();
        let early = Duration::from_millis(number % 700);
        loop {
            let due =
                if kill % 2 == 0 { lab.visits() >= before + requests } else { begun.elapsed() >= early };
            if due {
                break;
            }
            if let Some(status) = child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0), "it ended by itself before kill {kill}");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "no progress before kill {kill}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let status = child.wait().unwrap();
        assert!(was_killed(status) || status.code() == Some(0), "{status}");
    }
    lab.crawl_to_the_end();
    lab.check();
}
