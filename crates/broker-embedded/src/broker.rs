//! The engine behind the contract: a writer thread for group commit, a keeper thread for housekeeping, and
//! receivers that wait.

use crate::{
    disk::RealDisk,
    engine::{CommitError, Engine, LARGEST_FILE, Request, Sizes},
    error::OpenError,
    guarantees,
    recover::{Recovery, recover, refuse_foreign_files},
};
use crawlway_broker::{
    Broker, BrokerError, DeadFilter, DeadId, DeadPage, Delivery, Depth, Guarantees, Outgoing, PublishError,
    QueueName, QueueSpec, Receipt, Replayed, SettleError, Settled, Verdict,
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

/// How the embedded queue is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the time is taken from.
    pub clock: Clock,
    /// How the clock stands now, to see at opening whether it was set since the queue was last open.
    pub anchor: Anchor,
    /// The largest message, headers included, in bytes; 1 GiB at most.
    pub max_message: u64,
    /// The largest segment file in bytes, unless a single message needs more; 64 KiB to 1 GiB.
    pub max_segment: u64,
    /// How often journals are synced, spare segments prepared and stragglers moved: also how much of what
    /// was settled a power cut may undo.
    pub housekeeping: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::System,
            anchor: Anchor::of_this_process().clone(),
            max_message: 64 << 20,
            max_segment: 64 << 20,
            housekeeping: Duration::from_secs(1),
        }
    }
}

/// When the queue was not looked at for so long, the process was suspended.
const FROZEN: Duration = Duration::from_secs(3);

/// The first segment of a run; small, so that a short run writes little.
const FIRST_SEGMENT: u64 = 4 << 20;

/// The queue contract on a directory of its own.
#[derive(Debug)]
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
    recovery: Recovery,
    running: Mutex<Option<Running>>,
}

/// What must end in order when the broker is closed.
#[derive(Debug)]
struct Running {
    writer: JoinHandle<()>,
    keeper: JoinHandle<()>,
    _lock: DirectoryLock,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    clock: Clock,
    housekeeping: Duration,
    inbox: Mutex<Inbox>,
    /// Wakes the writer.
    filled: Condvar,
    /// Wakes the keeper before its time, to stop.
    stopping: Condvar,
}

#[derive(Debug, Default)]
struct Inbox {
    requests: Vec<Request>,
    /// The writer sleeps; waking one that does not costs a system call for nothing.
    writer_sleeps: bool,
    stopped: bool,
}

impl EmbeddedBroker {
    /// Opens the queue directory, creating it if need be, and recovers what is in it.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        fs::create_dir_all(directory).map_err(|error| OpenError::io("create", directory, error))?;
        let disk = Arc::new(RealDisk::new(directory.to_owned()));
        // Before anything is written into a directory that may be somebody else's.
        refuse_foreign_files(&*disk)?;
        let directory_lock =
            DirectoryLock::take(directory).map_err(|error| OpenError::locking(directory, error))?;
        let largest_segment = options.max_segment.clamp(64 << 10, 1 << 30);
        let sizes = Sizes {
            first_segment: FIRST_SEGMENT.min(largest_segment),
            largest_segment,
            largest_message: options.max_message.min(LARGEST_FILE - (1 << 20)),
            reserve: 1 << 20,
            large_journal: 16 << 20,
        };
        let now = options.clock.now();
        let mut recovered = recover(disk, sizes, now, Some(options.anchor))?;
        if matches!(options.clock, Clock::System) {
            recovered.engine.notice_freezes((3 * options.housekeeping).max(FROZEN), now);
        }
        let shared = Arc::new(Shared {
            engine: recovered.engine,
            clock: options.clock,
            housekeeping: options.housekeeping,
            inbox: Mutex::default(),
            filled: Condvar::new(),
            stopping: Condvar::new(),
        });
        let spawn = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            let spawned = thread::Builder::new().name(name.into()).spawn(move || work(&shared));
            spawned.map_err(|error| OpenError::io("start a thread for", directory, error))
        };
        let running = Running {
            writer: spawn("queue-writer", Shared::write)?,
            keeper: spawn("queue-keeper", Shared::keep)?,
            _lock: directory_lock,
        };
        Ok(Self { shared, recovery: recovered.report, running: Mutex::new(Some(running)) })
    }

    /// What was found when the directory was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Stops the threads, once all that was accepted is written, and lets go of the directory.
    fn stop(&self) {
        self.shared.engine.close();
        self.shared.inbox.lock().stopped = true;
        self.shared.filled.notify_all();
        self.shared.stopping.notify_all();
        if let Some(running) = self.running.lock().take() {
            let _ = running.writer.join();
            let _ = running.keeper.join();
            self.shared.engine.finish();
        }
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// When the writer is gone, be it by a bug, nobody must wait for it.
struct Farewell<'a>(&'a Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.stopped = true;
        inbox.requests.clear();
    }
}

impl Shared {
    /// Writes whatever has come in since the last write, all of it together.
    fn write(&self) {
        let _farewell = Farewell(self);
        loop {
            let mut inbox = self.inbox.lock();
            while inbox.requests.is_empty() {
                if inbox.stopped {
                    return;
                }
                inbox.writer_sleeps = true;
                self.filled.wait(&mut inbox);
            }
            inbox.writer_sleeps = false;
            let requests = std::mem::take(&mut inbox.requests);
            drop(inbox);
            self.engine.commit(requests, self.clock.now());
        }
    }

    fn keep(&self) {
        loop {
            let mut inbox = self.inbox.lock();
            self.stopping.wait_while_for(&mut inbox, |inbox| !inbox.stopped, self.housekeeping);
            if inbox.stopped {
                return;
            }
            drop(inbox);
            self.engine.look(self.clock.now());
            self.submit_burials();
            self.engine.sync_journals();
            self.engine.prepare();
            self.engine.look_whether_it_is_over();
            self.engine.reserve_deaths();
            self.engine.bound_active_journal();
            self.engine.recycle();
            self.engine.start_relocating();
            // One at a time, so that memory is bounded and publishers get their turn.
            while let Some(request) = self.engine.relocate_stragglers() {
                if !self.write_and_wait(request) {
                    break;
                }
            }
        }
    }

    /// Has the request written and waits for it, on a thread that may; `false` if it was not.
    fn write_and_wait(&self, mut request: Request) -> bool {
        if request.is_empty() {
            return true;
        }
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        request.on_reply(move |results| {
            let _ = tell.send(results.iter().all(Result::is_ok));
        });
        self.submit(request);
        told.recv().unwrap_or(false)
    }

    fn submit(&self, request: Request) {
        if request.is_empty() {
            return;
        }
        let mut inbox = self.inbox.lock();
        if !inbox.stopped {
            inbox.requests.push(request);
            if std::mem::take(&mut inbox.writer_sleeps) {
                self.filled.notify_one();
            }
        }
    }

    /// Has messages that ran out of attempts written as dead letters.
    fn submit_burials(&self) {
        self.submit_all(self.engine.take_burials());
    }

    fn submit_all(&self, requests: Vec<Request>) {
        for request in requests {
            self.submit(request);
        }
    }

    /// Has the request written and waits for it. An empty answer means that the broker is closed.
    async fn written(&self, mut request: Request) -> Vec<Result<(), CommitError>> {
        if request.is_empty() {
            return Vec::new();
        }
        let (tell, told) = oneshot::channel();
        request.on_reply(move |results| drop(tell.send(results)));
        self.submit(request);
        told.await.unwrap_or_default()
    }
}

impl EmbeddedBroker {
    /// Does what waits for the disk away from the threads that everything else waits for.
    async fn aside<T: Send + 'static>(
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
        guarantees::guarantees(self.shared.engine.largest_message())
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        let queues = queues.to_vec();
        self.aside(move |shared| shared.engine.declare(&queues)).await
    }

    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.shared.engine.queues()
    }

    fn takes_messages(&self) -> Result<(), BrokerError> {
        self.shared.engine.takes_messages()
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let (request, routes) = self.shared.engine.route(&batch, self.shared.clock.now()).into_parts();
        drop(batch);
        let records = self.shared.written(request).await;
        crate::engine::Prepared::outcomes(routes, records)
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
            // From here on no arrival is missed, also while we look.
            arrived.as_mut().enable();
            let received = engine.receive(queue, max, self.shared.clock.now());
            self.shared.submit_burials();
            let received = received?;
            if !received.deliveries.is_empty() || wait.is_zero() {
                return Ok(received.deliveries);
            }
            let look_again = async {
                match received.look_again {
                    Some(time) => self.shared.clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut arrived => {}
                () = look_again => {}
                () = &mut deadline => return Ok(Vec::new()),
            }
        }
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<Settled, SettleError>> {
        let is_copied = |(_, verdict): &(Receipt, Verdict)| {
            matches!(verdict, Verdict::Retry { .. } | Verdict::Dead { .. })
        };
        let settling = if verdicts.iter().any(is_copied) {
            // The messages are read for their copies.
            let many = verdicts.len();
            let settling = self.aside(move |shared| Ok(shared.engine.settle(verdicts, shared.clock.now())));
            match settling.await {
                Ok(settling) => settling,
                Err(error) => {
                    let detail = error.to_string();
                    return (0..many)
                        .map(|_| Err(SettleError::Unavailable { detail: detail.clone() }))
                        .collect();
                }
            }
        } else {
            self.shared.engine.settle(verdicts, self.shared.clock.now())
        };
        self.shared.submit_burials();
        let (request, outcomes) = settling.into_parts();
        outcomes.resolve(self.shared.written(request).await)
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let extended = self.shared.engine.extend(receipts, lease, self.shared.clock.now());
        self.shared.submit_burials();
        extended
    }

    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.shared.engine.alone(receipt, self.shared.clock.now())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let depth = self.shared.engine.depth(queue, self.shared.clock.now());
        self.shared.submit_burials();
        depth
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let queue = queue.clone();
        let purged = self.aside(move |shared| shared.engine.purge(&queue, shared.clock.now())).await;
        self.shared.submit_burials();
        purged
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let queue = queue.clone();
        self.aside(move |shared| shared.engine.set_paused(&queue, true)).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let queue = queue.clone();
        self.aside(move |shared| shared.engine.set_paused(&queue, false)).await
    }

    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let (queue, filter, after) = (queue.clone(), filter.clone(), after.cloned());
        self.aside(move |shared| shared.engine.dead_letters(&queue, &filter, after.as_ref(), limit)).await
    }

    async fn replay(&self, queue: &QueueName, filter: &DeadFilter) -> Result<Replayed, BrokerError> {
        let mut replayed = Replayed::default();
        let mut after = None;
        let below = self.shared.engine.deaths_so_far();
        loop {
            let (name, which) = (queue.clone(), filter.clone());
            let step = self.aside(move |shared| shared.engine.replay(&name, &which, after, below)).await?;
            for record in self.shared.written(step.request).await {
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

    async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let (queue, filter) = (queue.clone(), filter.clone());
        self.aside(move |shared| shared.engine.drop_dead(&queue, &filter)).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.shared.engine.hand_back_all(self.shared.clock.now());
        self.stop();
        Ok(())
    }
}
