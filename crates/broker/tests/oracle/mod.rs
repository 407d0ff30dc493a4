//! The test oracle: the contract in memory, as simply as it can be said, with a clock that is moved by
//! hand and faults that can be switched on.

mod broker;
mod manner;
mod state;

pub(crate) use broker::Oracle;
pub(crate) use manner::Manner;

use crawlway_broker::{Broker, Timestamp, conformance::Harness};
use state::State;
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::Notify;

crawlway_conformance::faults! {
    LosesReadyOnRestart,
    LosesDelayedOnRestart,
    LosesDeadOnRestart,
    LosesInFlightOnCut,
    ForgetsAttemptsOnRestart,
    ForgetsPauseOnRestart,
    ReturnsSettledAfterRestart,
    LeaseNeverEnds,
    LeaseEndsEarly,
    TakesLateSettle,
    TakesExpiredSettle,
    TakesSecondSettle,
    TakesReceiptOfBefore,
    IgnoresReceiptQueue,
    IgnoresExtend,
    ExtendRevives,
    ExtendOnlyGrows,
    CountsDefer,
    DeferForgetsError,
    CountsRequeue,
    RequeueForgetsError,
    RequeueIsLate,
    CountsLostLease,
    CountsCut,
    ForgetsLosses,
    SuspectsComeTogether,
    IgnoresAlone,
    CountsFrozenWorker,
    AloneForEver,
    RetryForgetsSoloCrashes,
    AloneForAnybody,
    DoesNotCountRetry,
    NeverDead,
    DeadOneLate,
    ForgetsFirstError,
    LastErrorIsFirst,
    UncutErrors,
    EarlyRetry,
    EarlyDefer,
    IgnoresNotBefore,
    DelayBlocksQueue,
    DelaysAreFifo,
    ReturnsComeLast,
    NoWakeAfterDelay,
    LimitOneMore,
    LimitOneLess,
    LimitPerCall,
    LimitCountsInFlight,
    LimitIgnoresDelayed,
    LimitRejectsReturns,
    IgnoresLimit,
    GroupPairInFlight,
    GroupRetryLosesItsTurn,
    GroupBlocksAll,
    GroupStuckAfterDead,
    TakesMissingGroup,
    LargeGroupFirst,
    StarMatchesMany,
    HashNeedsAWord,
    CopyPerBinding,
    DropsUnroutable,
    FirstQueueOnly,
    ExchangesMixed,
    CopiesBeforeFull,
    DropsHeader,
    LowersHeaderNames,
    DropsEmptyHeaders,
    DropsKey,
    EmptyKeyIsNone,
    LossyBody,
    TruncatesBody,
    TakesTooLarge,
    SkipsChecks,
    DedupsIds,
    NewestFirst,
    ShortAnswers,
    IgnoresMax,
    IgnoresPrefetch,
    NoWakeOnPublish,
    NoWakeOnSettle,
    NoWaiting,
    TakesForNobody,
    DeliversTwice,
    ReplayKeepsAttempts,
    ReplayForgetsCount,
    ReplayKeepsLetter,
    ReplayLosesHeaders,
    ReplayIgnoresLimit,
    ReplayIgnoresFilter,
    DropIgnoresFilter,
    ReadingTakes,
    NewestDeadFirst,
    PageRepeats,
    PageBeforeFilter,
    UntilIsInclusive,
    CaseSensitiveFilter,
    PurgeTakesInFlight,
    PurgeTakesDead,
    PurgeMiscounts,
    PauseStopsPublish,
    IgnoresPause,
    PauseFencesSettle,
    DepthMissesDelayed,
    DepthForgetsLostLease,
    AgeStandsStill,
    RatesMissSettles,
    RatesNeverFall,
    RedeclareEmpties,
    RedeclareIsIgnored,
    TakesInvalidSpec,
    CreatesUnknownQueues,
    UnsortedQueues,
    NamesFoldCase,
    CloseIsNotFinal,
    CloseLeavesReceivers,
    RefusesDefer,
    TakesWhatItRefuses,
    RefusesWithoutAName,
    TakesNotBeforeAnyhow,
    PurgesAnyhow,
    LaterThanStated,
    DepthNeverCatchesUp,
    OvershootsItsSlack,
    TakesATighterSlack,
    StatesNoLease,
    AnswersEmptyBatches,
    PastIsLater,
    SetsWhatWasUnset,
    RefusesTheCore,
    DoneComesBack,
    EmptyBodyIsNull,
    DropStopsAtTen,
    ReplayStopsAtTen,
    ReturnsDeadAfterRestart,
    LosesInFlightOnRestart,
    KeepsTenHeaders,
    CutsLongNames,
    OneVerdictForAllCopies,
    ForgetsManyQueues,
    SlowConsumerBlocksPublish,
}

/// What all handles share: the data, the clock, and the bell that is rung at every change.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    bell: Notify,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call panics while it holds the state")
    }
}

/// The oracle's harness.
#[derive(Debug)]
pub(crate) struct OracleHarness {
    shared: Arc<Shared>,
    handle: Option<Arc<Oracle>>,
}

impl OracleHarness {
    /// That holds the contract in this manner, except for this fault.
    pub(crate) fn new(manner: Manner, fault: Fault) -> Self {
        let state = Mutex::new(State::new(manner, fault));
        Self { shared: Arc::new(Shared { state, bell: Notify::new() }), handle: None }
    }

    /// A further handle on the same data, as it is.
    #[allow(dead_code, reason = "each test crate uses its own part")]
    pub(crate) fn another(&self) -> Oracle {
        Oracle::open(self.shared.clone())
    }

    fn open(&mut self) -> Arc<dyn Broker> {
        let handle = Arc::new(Oracle::open(self.shared.clone()));
        self.handle = Some(handle.clone());
        handle
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self) -> Arc<dyn Broker> {
        self.open()
    }

    async fn restart(&mut self) -> Arc<dyn Broker> {
        if let Some(handle) = self.handle.take() {
            // A case may have closed it already.
            let _ = handle.close().await;
        }
        self.shared.state().reopen(true);
        self.open()
    }

    async fn cut(&mut self) -> Arc<dyn Broker> {
        self.shared.state().reopen(false);
        self.open()
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Broker>> {
        Some(Arc::new(Oracle::open(self.shared.clone())))
    }

    fn now(&self) -> Timestamp {
        self.shared.state().now
    }

    async fn pass(&mut self, time: Duration) {
        let ring = {
            let mut state = self.shared.state();
            state.now = state.now + time;
            state.fault != Fault::NoWakeAfterDelay
        };
        if ring {
            self.shared.bell.notify_waiters();
        }
        tokio::task::yield_now().await;
    }

    fn beat(&self) -> Duration {
        Duration::from_millis(3)
    }

    fn deadline(&self) -> Duration {
        // Only a fault is waited for in vain, so patience costs nothing without one.
        let seconds = if self.shared.state().is(Fault::Nothing) { 30 } else { 1 };
        Duration::from_secs(seconds)
    }
}
