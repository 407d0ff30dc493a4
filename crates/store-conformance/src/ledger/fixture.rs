//! Fixture of a ledger: sessions that live or crash, messages that are taken, settled and dead-lettered.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::{LedgerPolicy, ledger::*};

pub(crate) const POLICY: LedgerPolicy = LedgerPolicy {
    session_lease: LEASE,
    replay_lease: Duration::from_secs(300),
    retention: Duration::from_secs(24 * 3600),
};
pub(super) const LEASE: Duration = Duration::from_secs(90);
/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(30);

pub(super) const QUEUE: &str = "crawler_queue";

pub(super) fn key(key: &str) -> MessageKey {
    MessageKey::new(QUEUE, key).expect("a key")
}

pub(super) fn session(name: &str) -> SessionId {
    SessionId(name.to_owned())
}

pub(super) fn failed(error: &str) -> Settlement {
    Settlement::Failed { error: error.to_owned() }
}

/// Attempts, losses and solo crashes.
pub(super) fn counts(history: &History) -> [u32; 3] {
    [history.attempts, history.losses, history.solo_crashes]
}

/// A letter of this message with some detail.
pub(super) fn letter(message: &MessageKey) -> NewDeadLetter {
    let detail = DeadLetterDetail {
        item: format!("item-{}", message.key()),
        cause: "refused".to_owned(),
        reason: format!("refused {}", message.key()),
        attempts: 1,
        ..DeadLetterDetail::default()
    };
    NewDeadLetter { message: message.clone(), detail, body: message.key().as_bytes().to_vec() }
}

impl Fixture<'_> {
    pub(super) async fn open(&self, name: &str) -> SessionId {
        let session = session(name);
        let opened = self.store.open_session(&session, &format!("worker of {name}")).await;
        expect_ok(opened, "opening a session");
        session
    }

    pub(super) async fn heartbeat(&self, session: &SessionId) -> bool {
        expect_ok(self.store.heartbeat(session).await, "a heartbeat")
    }

    pub(super) async fn reap(&self) -> Vec<LostSession> {
        expect_ok(self.store.reap_sessions().await, "reaping")
    }

    /// Lets this much time pass, in which these sessions send heartbeats and reap others; returns the lost ones.
    pub(super) async fn live(&mut self, living: &[&SessionId], time: Duration) -> Vec<LostSession> {
        let end = self.now() + time;
        let mut lost = Vec::new();
        while self.now() < end {
            self.pass(HEARTBEAT.min(end.since(self.now()))).await;
            for session in living {
                assert!(self.heartbeat(session).await, "{session} lives and must not be lost");
            }
            lost.extend(self.reap().await);
        }
        lost
    }

    /// Lets all sessions crash but these.
    pub(super) async fn crash_all_but(&mut self, living: &[&SessionId]) -> Vec<LostSession> {
        self.live(living, LEASE * 2).await
    }

    pub(super) async fn take_all(&self, session: &SessionId, messages: &[MessageKey]) -> Vec<TakeOutcome> {
        let taken = expect_ok(self.store.take(session, messages).await, "taking");
        assert_eq!(taken.len(), messages.len(), "one answer per message");
        taken
    }

    pub(super) async fn take(&self, session: &SessionId, message: &MessageKey) -> TakeOutcome {
        self.take_all(session, from_ref(message)).await.remove(0)
    }

    /// Takes a message, which must succeed; returns its history.
    pub(super) async fn taken(&self, session: &SessionId, message: &MessageKey) -> History {
        match self.take(session, message).await {
            TakeOutcome::Taken(history) => history,
            other => panic!("{session} must be able to take {}, the answer was {other:?}", message.key()),
        }
    }

    /// Takes a message; returns its attempts, losses and solo crashes.
    pub(super) async fn counts(&self, session: &SessionId, message: &MessageKey) -> [u32; 3] {
        counts(&self.taken(session, message).await)
    }

    pub(super) async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> bool {
        expect_ok(self.store.mark_solo(session, message).await, "marking a solo run")
    }

    pub(super) async fn settle(
        &self,
        session: &SessionId,
        message: &MessageKey,
        settlement: Settlement,
    ) -> bool {
        let settled = self.store.settle(session, &[(message.clone(), settlement)]).await;
        expect_ok(settled, "settling")[0]
    }

    pub(super) async fn add_dead_letters(
        &self,
        session: &SessionId,
        letter: &NewDeadLetter,
    ) -> AddDeadLetterOutcome {
        expect_ok(self.store.add_dead_letters(session, from_ref(letter)).await, "adding")[0]
    }

    /// Buries a message, which must succeed.
    pub(super) async fn dead_lettered(&self, session: &SessionId, letter: &NewDeadLetter) -> DeadLetterId {
        match self.add_dead_letters(session, letter).await {
            AddDeadLetterOutcome::Dead(id) => id,
            other => panic!("{} must become a dead letter, the answer was {other:?}", letter.message.key()),
        }
    }

    pub(super) async fn list(&self, queue: &str, filter: &DeadLetterFilter) -> Vec<DeadLetter> {
        let page = expect_ok(self.store.dead_letters(queue, filter, None, 100).await, "listing");
        assert_eq!(page.next, None, "all fit into one page");
        page.letters
    }

    pub(super) async fn letters(&self) -> Vec<DeadLetter> {
        self.list(QUEUE, &DeadLetterFilter::default()).await
    }

    pub(super) async fn body(&self, letter: DeadLetterId) -> Option<Vec<u8>> {
        expect_ok(self.store.bodies(&[letter]).await, "reading a body").remove(0)
    }

    pub(super) async fn begin_replay(&self, letter: DeadLetterId) -> ReplayOutcome {
        expect_ok(self.store.begin_replay(&[letter]).await, "beginning a replay")[0]
    }

    /// Begins a replay, which must succeed with this epoch.
    pub(super) async fn replaying(&self, letter: DeadLetterId, epoch: u64) -> Replay {
        let replay = Replay { letter, epoch };
        assert_eq!(self.begin_replay(letter).await, ReplayOutcome::Begun(replay), "a replay of {letter}");
        replay
    }

    pub(super) async fn end_replay(&self, replay: Replay) -> bool {
        expect_ok(self.store.end_replay(&[replay]).await, "ending a replay")[0]
    }

    pub(super) async fn drop_letter(&self, letter: DeadLetterId) -> bool {
        expect_ok(self.store.drop_dead_letters(&[letter]).await, "dropping a letter")[0]
    }

    pub(super) async fn purge(&self, max: usize) -> u64 {
        expect_ok(self.store.purge_expired(max).await, "purging")
    }

    /// Expected number of purged rows; there are none where rows expire by themselves.
    pub(super) fn purged(&self, rows: u64) -> u64 {
        if self.harness.expires_by_itself() { 0 } else { rows }
    }
}
