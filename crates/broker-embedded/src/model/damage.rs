//! Corruption tests: flipped bits and truncated files never cause a panic, a wrong message or an unreported loss.

use super::{
    disk::{SeededRng, SimDisk},
    simulation::try_open,
};
use crate::{engine::Engine, error::OpenError, recover::Recovery};
use crawlway_broker::{Outgoing, QueueName, QueueSpec, Timestamp, Verdict};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NOW: Timestamp = Timestamp::from_millis(5_000_000);

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

/// A queue with settled, retried and pending messages, closed cleanly or not.
struct Filled {
    disk: SimDisk,
    bodies: BTreeMap<String, String>,
    settled: BTreeSet<String>,
}

fn filled(messages: usize, settle: usize, orderly: bool) -> Filled {
    let disk = SimDisk::default();
    let (engine, _) = try_open(&disk, NOW).unwrap();
    engine.declare(&[QueueSpec::new(queue()).prefetch(1000)]).unwrap();
    let mut bodies = BTreeMap::new();
    for n in 0..messages {
        let id = format!("m{n:03}");
        let body = id.repeat(1 + n * 7 % 90);
        let batch = [Outgoing::to_queue(&queue(), body.clone()).id(id.as_str())];
        engine.commit(vec![engine.route(&batch, NOW).0], NOW);
        bodies.insert(id, body);
    }
    let mut settled = BTreeSet::new();
    let received = engine.receive(&queue(), settle, NOW).unwrap();
    for (n, delivery) in received.deliveries.into_iter().enumerate() {
        let done = n % 3 != 0;
        let retry = Verdict::Retry { after: std::time::Duration::ZERO, error: "it failed".into() };
        let verdict = if done { Verdict::Done } else { retry };
        let (request, _) = engine.settle(vec![(delivery.receipt, verdict)], NOW);
        if done {
            settled.insert(delivery.message.id.to_string());
        } else {
            engine.commit(vec![request], NOW);
        }
    }
    if orderly {
        engine.finish();
    }
    Filled { disk, bodies, settled }
}

/// Recovers and drains the queue, checking each message; `None` if opening was refused.
fn take_out(filled: &Filled) -> Option<(BTreeSet<String>, Recovery)> {
    let (engine, report) = match try_open(&filled.disk, NOW) {
        Ok(opened) => opened,
        Err(OpenError::Catalog { .. } | OpenError::ForeignSegment { .. }) => return None,
        Err(error) => panic!("unexpected: {error}"),
    };
    Some((drain(&engine, &filled.bodies), report))
}

fn drain(engine: &Engine, bodies: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    loop {
        let received = engine.receive(&queue(), 100, NOW).unwrap();
        if received.deliveries.is_empty() {
            return seen;
        }
        for delivery in received.deliveries {
            let id = delivery.message.id.to_string();
            let body = bodies.get(&id).unwrap_or_else(|| panic!("{id} was never published"));
            assert_eq!(body.as_bytes(), &*delivery.message.body, "{id} has another body");
            seen.insert(id);
        }
    }
}

fn missing(filled: &Filled, seen: &BTreeSet<String>) -> Vec<String> {
    filled.bodies.keys().filter(|id| !seen.contains(*id) && !filled.settled.contains(*id)).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_in_segments_are_found_and_set_aside(
        messages in 1..60usize, settle in 0..20usize, flips in 1..6usize, orderly: bool, seed: u64,
    ) {
        let filled = filled(messages, settle, orderly);
        let mut rng = SeededRng(seed);
        for _ in 0..flips {
            filled.disk.flip_bit(|name| name.ends_with(".seg"), &mut rng);
        }
        let Some((seen, report)) = take_out(&filled) else { return Ok(()) };
        let missing = missing(&filled, &seen);
        let reported = report.damage.len() + report.unfinished.len();
        // Damage to the last header of an unsealed log is indistinguishable from its end.
        prop_assert!(missing.is_empty() || reported > 0 || !orderly, "{missing:?} lost unreported: {report:?}");
        for damage in report.damage.iter().chain(&report.unfinished) {
            prop_assert!(damage.saved_as.is_some());
        }
    }

    #[test]
    fn damaged_journals_lose_nothing(messages in 1..60usize, settle in 0..20usize, flips in 1..6usize, seed: u64) {
        let filled = filled(messages, settle, true);
        let mut rng = SeededRng(seed);
        for _ in 0..flips {
            filled.disk.flip_bit(|name| name.ends_with(".ops"), &mut rng);
        }
        let (seen, report) = take_out(&filled).expect("a journal does not keep the queue shut");
        prop_assert_eq!(missing(&filled, &seen), Vec::<String>::new());
        let back = seen.intersection(&filled.settled).count();
        prop_assert!(back as u64 <= report.damaged_journal_slots, "{back} redelivered: {report:?}");
    }

    #[test]
    fn cut_off_files_are_noticed(messages in 1..60usize, settle in 0..20usize, journal: bool, seed: u64) {
        let filled = filled(messages, settle, true);
        let end = if journal { ".ops" } else { ".seg" };
        filled.disk.truncate(|name| name.ends_with(end), &mut SeededRng(seed));
        let Some((seen, report)) = take_out(&filled) else { return Ok(()) };
        let missing = missing(&filled, &seen);
        prop_assert!(missing.is_empty() || !report.damage.is_empty(), "{missing:?} lost unreported: {report:?}");
    }

    #[test]
    fn a_damaged_catalog_is_refused(bit: u64) {
        let filled = filled(3, 0, true);
        filled.disk.flip_bit(|name| name == crate::catalog::FILE, &mut SeededRng(bit));
        let refused = matches!(try_open(&filled.disk, NOW), Err(OpenError::Catalog { .. }));
        prop_assert!(refused);
    }
}

#[test]
fn damage_is_reported_once() {
    let filled = filled(20, 0, true);
    filled.disk.flip_bit(|name| name.ends_with(".seg"), &mut SeededRng(7));
    let (_, first) = try_open(&filled.disk, NOW).unwrap();
    let (_, second) = try_open(&filled.disk, NOW).unwrap();
    assert_eq!((first.damage.len(), second.damage.len()), (1, 0));
    assert!(filled.disk.names().contains(first.damage[0].saved_as.as_ref().unwrap()));
}

#[test]
fn a_segment_of_another_directory_is_refused_by_name() {
    let (ours, theirs) = (filled(5, 0, true), filled(5, 0, true));
    ours.disk.copy_file(&theirs.disk, "0000000001.seg", "0000000099.seg");
    let error = try_open(&ours.disk, NOW).err().unwrap().to_string();
    assert!(error.contains("0000000099.seg") && error.contains("not a segment of this queue"), "{error}");
}
