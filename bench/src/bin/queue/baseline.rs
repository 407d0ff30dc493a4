//! Baseline: the same writes, reads and syncs without a queue.
//!
//! One preallocated file, group commit by one writer thread, and 16 bytes per delivery and per settle. No index, no checksums, no
//! routing, no recovery.

use crate::{CONSUMERS, IN_FLIGHT, PUBLISHERS};
use crawlway_bench::median;
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Overhead of the queue per body: header, times and id.
const OVERHEAD: usize = 88;

struct Shared {
    data: File,
    marks: File,
    inbox: Mutex<Vec<(Vec<u8>, mpsc::SyncSender<()>)>>,
    filled: Condvar,
    /// Number of durable bytes.
    durable: Mutex<u64>,
    grown: Condvar,
}

/// Time to write and read all messages.
pub(crate) fn run(folder: &Path, messages: usize, size: usize) -> anyhow::Result<Duration> {
    std::fs::create_dir_all(folder)?;
    let record = (size + OVERHEAD).next_multiple_of(8);
    let data = preallocated(&folder.join("data"), (messages * record) as u64)?;
    let marks =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).open(folder.join("marks"))?;
    let shared = Arc::new(Shared {
        data,
        marks,
        inbox: Mutex::default(),
        filled: Condvar::new(),
        durable: Mutex::new(0),
        grown: Condvar::new(),
    });
    let batches = messages / IN_FLIGHT;
    let total = (batches * IN_FLIGHT * record) as u64;
    let (next, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| write(&shared, total));
        for _ in 0..PUBLISHERS {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < batches {
                    publish(&shared, vec![b'x'; record * IN_FLIGHT]);
                }
            });
        }
        for _ in 0..CONSUMERS {
            scope.spawn(|| {
                loop {
                    let batch = taken.fetch_add(1, Ordering::Relaxed);
                    if batch >= batches {
                        return;
                    }
                    consume(&shared, batch, record);
                }
            });
        }
    });
    let took = started.elapsed();
    std::fs::remove_dir_all(folder)?;
    Ok(took)
}

fn preallocated(path: &Path, length: u64) -> anyhow::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        file.write_all_at(&zeros, at)?;
        at += zeros.len() as u64;
    }
    file.sync_all()?;
    Ok(file)
}

fn publish(shared: &Shared, batch: Vec<u8>) {
    let (sender, confirm) = mpsc::sync_channel(1);
    shared.inbox.lock().expect("no panic").push((batch, sender));
    shared.filled.notify_one();
    confirm.recv().expect("the writer confirms");
}

fn write(shared: &Shared, total: u64) {
    let mut end = 0;
    while end < total {
        let mut inbox = shared.inbox.lock().expect("no panic");
        while inbox.is_empty() {
            inbox = shared.filled.wait(inbox).expect("no panic");
        }
        let batches = std::mem::take(&mut *inbox);
        drop(inbox);
        for (batch, _) in &batches {
            shared.data.write_all_at(batch, end).expect("written");
            end += batch.len() as u64;
        }
        shared.data.sync_data().expect("synced");
        *shared.durable.lock().expect("no panic") = end;
        shared.grown.notify_all();
        for (_, sender) in batches {
            let _ = sender.send(());
        }
    }
}

fn consume(shared: &Shared, batch: usize, record: usize) {
    let length = record * IN_FLIGHT;
    let start = (batch * length) as u64;
    let mut durable = shared.durable.lock().expect("no panic");
    while *durable < start + length as u64 {
        durable = shared.grown.wait(durable).expect("no panic");
    }
    drop(durable);
    let at = (batch * IN_FLIGHT * 32) as u64;
    let marks = vec![1; IN_FLIGHT * 16];
    shared.marks.write_all_at(&marks, at).expect("written");
    let mut bytes = vec![0; length];
    shared.data.read_exact_at(&mut bytes, start).expect("read");
    std::hint::black_box(&bytes);
    shared.marks.write_all_at(&marks, at + marks.len() as u64).expect("written");
}

/// Time of one fdatasync after a write of 4 KiB into a preallocated file, the median of 200.
pub(crate) fn fdatasync(folder: &Path) -> anyhow::Result<Duration> {
    let path = folder.join("sync");
    let file = preallocated(&path, 1 << 20)?;
    let mut times = Vec::new();
    for turn in 0..200u64 {
        file.write_all_at(&[1; 4096], turn * 4096)?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(median(&times))
}
