//! Fault injection on a disk that keeps working: failed reads and syncs, and a restored backup.

use super::{
    disk::{Crash, SeededRng, SimDisk},
    simulation::{SIZES, commit},
};
use crate::{
    disk::{Disk, DiskFile},
    engine::Engine,
    error::OpenError,
    recover::recover,
};
use crawlway_broker::{
    BrokerError, DeadLetterFilter, Delivery, ExchangeName, Outgoing, PublishError, QueueName, QueueSpec,
    SettleOutcome, Timestamp, TopicPattern, Verdict,
};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

const NOW: Timestamp = Timestamp::from_millis(5_000_000);

/// Injected faults.
#[derive(Debug, Default)]
struct Faults {
    directory_sync: AtomicBool,
    read: AtomicBool,
    /// Fails every sync while set.
    sync: AtomicBool,
    written: AtomicU64,
}

#[derive(Debug, Clone)]
struct FaultyDisk(SimDisk, Arc<Faults>);

#[derive(Debug)]
struct FaultyFile(Arc<dyn DiskFile>, Arc<Faults>);

fn fault() -> io::Error {
    io::Error::other("input/output error")
}

impl FaultyDisk {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile(file, self.1.clone()))
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.0.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.0.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        if self.1.directory_sync.swap(false, SeqCst) { Err(fault()) } else { self.0.sync_dir() }
    }

    fn free(&self) -> io::Result<u64> {
        self.0.free()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.1.read.load(SeqCst) { Err(fault()) } else { self.0.read_at(buffer, offset) }
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.1.written.fetch_add(buffer.len() as u64, SeqCst);
        self.0.write_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.1.sync.load(SeqCst) { Err(fault()) } else { self.0.sync() }
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn exchange() -> ExchangeName {
    ExchangeName::new("exchange").unwrap()
}

/// Two queues, both bound to all topics.
fn two_queues() -> (FaultyDisk, Engine) {
    let disk = FaultyDisk(SimDisk::default(), Arc::default());
    let engine = open(&disk);
    let spec =
        |name| QueueSpec::new(queue(name)).prefetch(1000).bind(exchange(), TopicPattern::new("#").unwrap());
    engine.declare(&[spec("a"), spec("b")]).unwrap();
    (disk, engine)
}

fn open(disk: &FaultyDisk) -> Engine {
    recover(Arc::new(disk.clone()), SIZES, NOW, None)
        .map(|recovered| recovered.engine)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn publish(engine: &Engine, batch: &[Outgoing]) -> Vec<Result<(), PublishError>> {
    let (request, routes) = engine.route(batch, NOW);
    routes.outcomes(commit(engine, request, NOW))
}

fn message(name: &str, id: &str, size: usize) -> Outgoing {
    Outgoing::to_queue(&queue(name), vec![b'x'; size]).id(id)
}

fn receive(engine: &Engine, name: &str) -> Vec<Delivery> {
    engine.receive(&queue(name), 1000, NOW).unwrap().deliveries
}

fn waiting(engine: &Engine, name: &str) -> u64 {
    engine.depth(&queue(name), NOW).unwrap().pending()
}

#[test]
fn a_failed_read_is_not_the_messages_fault() {
    let (disk, engine) = two_queues();
    assert_eq!(publish(&engine, &[message("a", "m", 10)]), [Ok(())]);
    disk.1.read.store(true, SeqCst);
    let failed = engine.receive(&queue("a"), 1, NOW);
    assert!(matches!(failed, Err(BrokerError::Unavailable { .. })), "{failed:?}");
    disk.1.read.store(false, SeqCst);
    let engine = open(&disk);
    let deliveries = receive(&engine, "a");
    assert_eq!(
        deliveries.iter().map(|delivery| delivery.attempt).collect::<Vec<_>>(),
        [1],
        "there, and nothing counted"
    );
}

#[test]
fn a_failed_directory_sync_does_not_stop_publishing_for_good() {
    let (disk, engine) = two_queues();
    assert_eq!(publish(&engine, &[message("a", "m1", 1500)]), [Ok(())]);
    disk.1.directory_sync.store(true, SeqCst);
    assert!(publish(&engine, &[message("a", "m2", 1500)])[0].is_err());
    assert_eq!(publish(&engine, &[message("a", "m3", 1500)]), [Ok(())]);
}

#[test]
fn a_topic_goes_to_all_its_queues_or_to_none() {
    let (disk, engine) = two_queues();
    assert_eq!(publish(&engine, &[message("a", "m", 700)]), [Ok(())]);
    // Free space for one more record in the segment, but not for another segment.
    disk.0.set_free_space(Some(100));
    let outcome = publish(&engine, &[Outgoing::to_topic(&exchange(), "t", vec![b'y'; 700])]);
    assert!(matches!(outcome[0], Err(PublishError::Unavailable { .. })), "{outcome:?}");
    assert_eq!((waiting(&engine, "a"), waiting(&engine, "b")), (1, 0));
}

#[test]
fn a_full_disk_costs_no_writing() {
    let (disk, engine) = two_queues();
    publish(&engine, &[message("a", "m1", 900), message("a", "m2", 900)]);
    disk.0.set_free_space(Some(1000));
    disk.1.written.store(0, SeqCst);
    let batch: Vec<Outgoing> = (0..100).map(|n| message("a", &format!("x{n}"), 1200)).collect();
    assert!(publish(&engine, &batch).iter().all(Result::is_err));
    for _ in 0..10 {
        engine.prepare_spare();
    }
    let written = disk.1.written.load(SeqCst);
    assert!(written < 2000, "{written} bytes written on a full disk");
}

#[test]
fn a_copy_whose_commit_failed_never_counts() {
    for seed in 0..50 {
        let (disk, engine) = two_queues();
        publish(&engine, &[message("a", "m", 700)]);
        let delivery = receive(&engine, "a").remove(0);
        publish(&engine, &[message("b", "f1", 900)]);
        publish(&engine, &[message("b", "f2", 600)]);
        let retry = Verdict::Retry { after: Duration::ZERO, error: "it failed".into() };
        let (request, _) = engine.settle(vec![(delivery.receipt.clone(), retry)], NOW);
        disk.1.sync.store(true, SeqCst);
        engine.commit(vec![request], NOW);
        disk.1.sync.store(false, SeqCst);
        let (_, outcomes) = engine.settle(vec![(delivery.receipt, Verdict::Done)], NOW);
        assert_eq!(outcomes.resolve(Vec::new()), [Ok(SettleOutcome::Done)]);
        for filler in receive(&engine, "b") {
            drop(engine.settle(vec![(filler.receipt, Verdict::Done)], NOW));
        }
        engine.recycle();
        engine.sync_journals();
        disk.0.restart(Crash::PowerCut, &mut SeededRng(seed));
        assert_eq!(receive(&open(&disk), "a"), [], "settled, synced, and back");
    }
}

#[test]
fn deferring_for_ever_does_not_fill_the_disk() {
    let (disk, engine) = two_queues();
    publish(&engine, &[message("a", "m", 10)]);
    for n in 0..5000 {
        let delivery = receive(&engine, "a").remove(0);
        assert_eq!(delivery.attempt, 1);
        drop(engine.settle(vec![(delivery.receipt, Verdict::Defer { until: NOW })], NOW));
        if n % 100 == 0 {
            engine.seal_oversized_journal();
            engine.start_compaction();
            while let Some(request) = engine.next_compaction_batch() {
                engine.commit(vec![request], NOW);
            }
            engine.recycle();
        }
    }
    let journals = disk.0.names().into_iter().filter(|name| name.ends_with(".ops"));
    let size: u64 = journals.map(|name| disk.0.open(&name).unwrap().len().unwrap()).sum();
    assert!(size < 20_000, "{size} bytes of journals for one message");
}

#[test]
fn replaying_letters_that_die_again_at_once_ends() {
    let (_, engine) = two_queues();
    let kill_all = || {
        for delivery in receive(&engine, "a") {
            let (request, _) =
                engine.settle(vec![(delivery.receipt, Verdict::Dead { reason: "hopeless".into() })], NOW);
            engine.commit(vec![request], NOW);
        }
    };
    for n in 0..300 {
        publish(&engine, &[message("a", &format!("m{n}"), 10)]);
    }
    kill_all();
    let (below, mut after, mut rounds) = (engine.next_dead_letter_number(), None, 0);
    loop {
        let step = engine.replay(&queue("a"), &DeadLetterFilter::all(), after, below).unwrap();
        engine.commit(vec![step.request], NOW);
        kill_all();
        rounds += 1;
        assert!(rounds < 10, "the replay does not end");
        match step.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
}

#[test]
fn a_restored_catalog_overwrites_nothing_and_hides_nothing() {
    let (disk, engine) = two_queues();
    let backup = SimDisk::default();
    publish(&engine, &[message("a", "m", 10)]);
    backup.copy_file(&disk.0, "queues.json", "queues.json");
    for n in 0..150 {
        assert_eq!(publish(&engine, &[message("a", &format!("m{n}"), 4000)]), [Ok(())]);
    }
    engine.finish();
    disk.0.copy_file(&backup, "queues.json", "queues.json");
    let engine = open(&disk);
    for n in 0..20 {
        assert_eq!(publish(&engine, &[message("a", &format!("n{n}"), 4000)]), [Ok(())]);
    }
    engine.declare(&[QueueSpec::new(queue("later"))]).unwrap();
    assert_eq!(publish(&engine, &[message("later", "l", 10)]), [Ok(())]);
    engine.finish();
    assert_eq!(waiting(&open(&disk), "a"), 171);
    // A backup from before a queue was declared must not discard its messages.
    disk.0.copy_file(&backup, "queues.json", "queues.json");
    let refused = recover(Arc::new(disk), SIZES, NOW, None).err();
    assert!(
        matches!(&refused, Some(OpenError::Catalog { problem, .. }) if problem.contains("does not list")),
        "{refused:?}"
    );
}

#[test]
fn a_torn_commit_in_a_used_file_is_torn_and_not_damaged() {
    use crate::record::{Commit, Kind, PayloadParts, RecordHeader};
    let salt = 77;
    // A recycled file has stale bytes after its new records.
    let mut bytes: Vec<u8> = (0..4usize << 20).map(|n| ((n * 7) % 251) as u8).collect();
    let headers = crawlway_broker::Headers::new();
    let mut at = 32;
    while at < 1 << 20 {
        let parts = PayloadParts {
            published_at: NOW,
            due: NOW,
            group: None,
            history: None,
            dead_letter: None,
            id: "x",
            key: None,
            headers: &headers,
            body: &[1; 200],
        };
        let mut record = Vec::new();
        let payload = parts.append_record(&mut record);
        RecordHeader::write(&mut record, payload, Commit { number: 5, start: 32 }, 0, Kind::Message, salt);
        bytes[at..at + record.len()].copy_from_slice(&record);
        at += record.len();
    }
    for page in (4096..at).step_by(8192) {
        bytes[page..page + 4096].fill(0);
    }
    let mut holes = 0;
    let end = crate::segment::scan(&bytes, salt, None, |found| {
        holes += usize::from(!matches!(found, crate::segment::ScanItem::Record { .. }));
    });
    assert!(end.torn > 0 && holes <= 1, "torn, not damaged: {end:?} {holes}");
}

#[test]
fn a_process_that_was_suspended_still_holds_what_it_held() {
    let (_, mut engine) = two_queues();
    let lease = Duration::from_secs(60);
    engine.detect_suspensions(Duration::from_secs(3), NOW);
    publish(&engine, &[message("a", "m", 10)]);
    let held = receive(&engine, "a").remove(0);
    let later = NOW + Duration::from_secs(90);
    assert_eq!(engine.receive(&queue("a"), 1, later).unwrap().deliveries, [], "it is held");
    assert_eq!(engine.extend(std::slice::from_ref(&held.receipt), lease, later), [Ok(())]);
    // With regular lease checks, a lease that is not extended ends.
    for second in 90..=151 {
        engine.expire_leases(NOW + Duration::from_secs(second));
    }
    let again = engine.receive(&queue("a"), 1, NOW + Duration::from_secs(151)).unwrap().deliveries;
    assert_eq!(again.iter().map(|again| (again.attempt, again.losses)).collect::<Vec<_>>(), [(1, 1)]);
}
