//! `Broker` implementation on top of the engine: a writer thread for group commit, a housekeeping thread, and waiting
//! receivers.

use crate::{
    disk::RealDisk,
    engine::{CommitError, Engine, MAX_FILE_SIZE, Request, Sizes},
    error::OpenError,
    guarantees,
    recover::{Recovery, recover, refuse_foreign_files},
};
use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Receipt, ReplayOutcome,
    SettleError, SettleOutcome, Verdict,
};
use crawlway_clock::{Anchor, Clock};
use crawlway_lock::DirectoryLock;
use parking_lot::{Condvar, Mutex};
use std::{
    fs,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::oneshot;

/// Options of the embedded queue.
#[derive(Debug, Clone)]
pub struct Options {
    /// Clock for leases, delays and timestamps.
    pub clock: Clock,
    /// Anchor of the clock, compared on open with the stored one to detect a clock that was set in between.
    pub anchor: Anchor,
    /// Maximum message size in bytes, headers included; at most 1 GiB.
    pub max_message: u64,
    /// Maximum size of a segment file in bytes, unless one message needs more; 64 KiB to 1 GiB.
    pub max_segment: u64,
    /// Interval of housekeeping (journal sync, spare segments, compaction). Also the time span of settles that a power
    /// cut may undo.
    pub housekeeping: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::System,
            anchor: Anchor::current().clone(),
            max_message: 64 << 20,
            max_segment: 64 << 20,
            housekeeping: Duration::from_secs(1),
        }
    }
}

/// Minimum time without a lease check that counts as a suspension of the process.
const MIN_SUSPENSION: Duration = Duration::from_secs(3);

/// Size of the first segment of a run. Small, so that a short run writes little.
const FIRST_SEGMENT: u64 = 4 << 20;

/// Embedded queue: a [`Broker`] on a directory of its own.
#[derive(Debug)]
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
    recovery: Recovery,
    running: Mutex<Option<Running>>,
}

/// Threads and lock, released in order on close.
#[derive(Debug)]
struct Running {
    writer: JoinHandle<()>,
    housekeeper: JoinHandle<()>,
    _lock: DirectoryLock,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    clock: Clock,
    housekeeping: Duration,
    inbox: Mutex<Inbox>,
    /// Wakes the writer thread.
    writer_wakeup: Condvar,
    /// Wakes the housekeeping thread early, to stop it.
    housekeeping_wakeup: Condvar,
}

#[derive(Debug, Default)]
struct Inbox {
    requests: Vec<Request>,
    /// Whether the writer waits. Notifying a busy writer would cost a needless system call.
    writer_sleeps: bool,
    stopped: bool,
}

impl EmbeddedBroker {
    /// Opens a queue directory, creates it if missing, and runs recovery.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        fs::create_dir_all(directory).map_err(|error| OpenError::io("create", directory, error))?;
        let disk = Arc::new(RealDisk::new(directory.to_owned()));
        // Checked before the first write, since the directory may belong to another program.
        refuse_foreign_files(&*disk)?;
        let directory_lock =
            DirectoryLock::acquire(directory).map_err(|error| OpenError::locking(directory, error))?;
        let max_segment = options.max_segment.clamp(64 << 10, 1 << 30);
        let sizes = Sizes {
            first_segment: FIRST_SEGMENT.min(max_segment),
            max_segment,
            max_message: options.max_message.min(MAX_FILE_SIZE - (1 << 20)),
            reserve: 1 << 20,
            journal_threshold: 16 << 20,
        };
        let now = options.clock.now();
        let mut recovered = recover(disk, sizes, now, Some(options.anchor))?;
        if matches!(options.clock, Clock::System) {
            recovered.engine.detect_suspensions((3 * options.housekeeping).max(MIN_SUSPENSION), now);
        }
        let shared = Arc::new(Shared {
            engine: recovered.engine,
            clock: options.clock,
            housekeeping: options.housekeeping,
            inbox: Mutex::default(),
            writer_wakeup: Condvar::new(),
            housekeeping_wakeup: Condvar::new(),
        });
        let spawn = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            let spawned = thread::Builder::new().name(name.into()).spawn(move || work(&shared));
            spawned.map_err(|error| OpenError::io("start a thread for", directory, error))
        };
        let running = Running {
            writer: spawn("queue-writer", Shared::run_writer)?,
            housekeeper: spawn("queue-keeper", Shared::run_housekeeping)?,
            _lock: directory_lock,
        };
        Ok(Self { shared, recovery: recovered.report, running: Mutex::new(Some(running)) })
    }

    /// Report of the recovery on open.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Stops both threads after all accepted requests are written, and releases the directory.
    fn stop(&self) {
        self.shared.engine.close();
        self.shared.inbox.lock().stopped = true;
        self.shared.writer_wakeup.notify_all();
        self.shared.housekeeping_wakeup.notify_all();
        if let Some(running) = self.running.lock().take() {
            let _ = running.writer.join();
            let _ = running.housekeeper.join();
            self.shared.engine.finish();
        }
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Drop guard of the writer thread: fails all queued requests if the thread ends, even by a panic.
struct WriterGuard<'a>(&'a Shared);

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.stopped = true;
        inbox.requests.clear();
    }
}

impl Shared {
    /// Writer loop: commits all queued requests together.
    fn run_writer(&self) {
        let _guard = WriterGuard(self);
        loop {
            let mut inbox = self.inbox.lock();
            while inbox.requests.is_empty() {
                if inbox.stopped {
                    return;
                }
                inbox.writer_sleeps = true;
                self.writer_wakeup.wait(&mut inbox);
            }
            inbox.writer_sleeps = false;
            let requests = std::mem::take(&mut inbox.requests);
            drop(inbox);
            self.engine.commit(requests, self.clock.now());
        }
    }

    fn run_housekeeping(&self) {
        loop {
            let mut inbox = self.inbox.lock();
            self.housekeeping_wakeup.wait_while_for(&mut inbox, |inbox| !inbox.stopped, self.housekeeping);
            if inbox.stopped {
                return;
            }
            drop(inbox);
            self.engine.expire_leases(self.clock.now());
            self.submit_dead_letters();
            self.engine.sync_journals();
            self.engine.prepare_spare();
            self.engine.probe_disk();
            self.engine.reserve_dead_letter_numbers();
            self.engine.seal_oversized_journal();
            self.engine.recycle();
            self.engine.start_compaction();
            // One batch at a time bounds memory and lets publishers in between.
            while let Some(request) = self.engine.next_compaction_batch() {
                if !self.commit_blocking(request) {
                    break;
                }
            }
        }
    }

    /// Commits a request and blocks until it is durable; `false` on failure.
    fn commit_blocking(&self, mut request: Request) -> bool {
        if request.is_empty() {
            return true;
        }
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        request.on_reply(move |results| {
            let _ = sender.send(results.iter().all(Result::is_ok));
        });
        self.submit(request);
        receiver.recv().unwrap_or(false)
    }

    fn submit(&self, request: Request) {
        if request.is_empty() {
            return;
        }
        let mut inbox = self.inbox.lock();
        if !inbox.stopped {
            inbox.requests.push(request);
            if std::mem::take(&mut inbox.writer_sleeps) {
                self.writer_wakeup.notify_one();
            }
        }
    }

    /// Submits the dead letters of messages that crashed their workers too often.
    fn submit_dead_letters(&self) {
        for request in self.engine.take_dead_letter_requests() {
            self.submit(request);
        }
    }

    /// Commits a request and waits for it. An empty result means that the broker is closed.
    async fn commit(&self, mut request: Request) -> Vec<Result<(), CommitError>> {
        if request.is_empty() {
            return Vec::new();
        }
        let (sender, receiver) = oneshot::channel();
        request.on_reply(move |results| drop(sender.send(results)));
        self.submit(request);
        receiver.await.unwrap_or_default()
    }
}

impl EmbeddedBroker {
    /// Runs disk I/O on the blocking thread pool.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let shared = self.shared.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|error| Err(BrokerError::Unavailable { detail: error.to_string() }))
    }
}

#[async_trait::async_trait]
impl Broker for EmbeddedBroker {
    fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(self.shared.engine.max_message())
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        let queues = queues.to_vec();
        self.run_blocking(move |shared| shared.engine.declare(&queues)).await
    }

    fn accepts_publishes(&self) -> Result<(), BrokerError> {
        self.shared.engine.accepts_publishes()
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let (request, routes) = self.shared.engine.route(&batch, self.shared.clock.now());
        drop(batch);
        routes.outcomes(self.shared.commit(request).await)
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let engine = &self.shared.engine;
        let arrivals = engine.arrivals(queue)?;
        if max == 0 {
            return Ok(Vec::new());
        }
        let deadline = tokio::time::sleep(wait);
        tokio::pin!(deadline);
        loop {
            let arrived = arrivals.notified();
            tokio::pin!(arrived);
            // Registered before looking, so that no arrival is missed.
            arrived.as_mut().enable();
            let received = engine.receive(queue, max, self.shared.clock.now());
            self.shared.submit_dead_letters();
            let received = received?;
            if !received.deliveries.is_empty() || wait.is_zero() {
                return Ok(received.deliveries);
            }
            let wake_at = async {
                match received.wake_at {
                    Some(time) => self.shared.clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut arrived => {}
                () = wake_at => {}
                () = &mut deadline => return Ok(Vec::new()),
            }
        }
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        let needs_copy = |(_, verdict): &(Receipt, Verdict)| {
            matches!(verdict, Verdict::Retry { .. } | Verdict::Dead { .. })
        };
        let (request, outcomes) = if verdicts.iter().any(needs_copy) {
            // Copies need the stored messages, which is disk I/O.
            let count = verdicts.len();
            let settle =
                self.run_blocking(move |shared| Ok(shared.engine.settle(verdicts, shared.clock.now())));
            match settle.await {
                Ok(settled) => settled,
                Err(error) => {
                    let detail = error.to_string();
                    return vec![Err(SettleError::Unavailable { detail }); count];
                }
            }
        } else {
            self.shared.engine.settle(verdicts, self.shared.clock.now())
        };
        self.shared.submit_dead_letters();
        outcomes.resolve(self.shared.commit(request).await)
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let extended = self.shared.engine.extend(receipts, lease, self.shared.clock.now());
        self.shared.submit_dead_letters();
        extended
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.shared.engine.mark_solo(receipt, self.shared.clock.now())
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.shared.engine.return_all(self.shared.clock.now());
        self.stop();
        Ok(())
    }
}

#[async_trait::async_trait]
impl QueueAdmin for EmbeddedBroker {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.shared.engine.queues()
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let depth = self.shared.engine.depth(queue, self.shared.clock.now());
        self.shared.submit_dead_letters();
        depth
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let queue = queue.clone();
        let purged = self.run_blocking(move |shared| shared.engine.purge(&queue, shared.clock.now())).await;
        self.shared.submit_dead_letters();
        purged
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let queue = queue.clone();
        self.run_blocking(move |shared| shared.engine.set_paused(&queue, true)).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let queue = queue.clone();
        self.run_blocking(move |shared| shared.engine.set_paused(&queue, false)).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for EmbeddedBroker {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let (queue, filter, after) = (queue.clone(), filter.clone(), after.cloned());
        self.run_blocking(move |shared| shared.engine.dead_letters(&queue, &filter, after.as_ref(), limit))
            .await
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        let mut replayed = ReplayOutcome::default();
        let mut after = None;
        let below = self.shared.engine.next_dead_letter_number();
        loop {
            let (name, which) = (queue.clone(), filter.clone());
            let step =
                self.run_blocking(move |shared| shared.engine.replay(&name, &which, after, below)).await?;
            for record in self.shared.commit(step.request).await {
                match record {
                    Ok(()) => replayed.count += 1,
                    Err(error) => drop(replayed.stopped.get_or_insert(error.into())),
                }
            }
            replayed.stopped = replayed.stopped.or(step.stopped);
            match step.next {
                Some(next) if replayed.stopped.is_none() => after = Some(next),
                _ => return Ok(replayed),
            }
        }
    }

    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        let (queue, filter) = (queue.clone(), filter.clone());
        self.run_blocking(move |shared| shared.engine.drop_dead_letters(&queue, &filter)).await
    }
}
