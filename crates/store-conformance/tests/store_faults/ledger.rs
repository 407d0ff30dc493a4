//! Faults of the ledger.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{Ledger, LedgerPolicy, ledger::*};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    HeartbeatsAreIgnored,
    ReapsNothing,
    ClosingDoesNothing,
    SoloIsIgnored,
    ReturnedCounts,
    FailuresAreForgotten,
    FencedIsSettled,
    EachCallMakesADeadLetter,
    BodiesAreTexts,
    ListsOneMore,
    FilterIsIgnored,
    ReplaysAreNotExclusive,
    AnyEpochEnds,
    DeadLettersExpire,
}
use Fault::*;

faulty! { Ledger {
        open_session(session: &SessionId, worker: &str) -> Answer<()>;
        take(session: &SessionId, messages: &[MessageKey]) -> Answer<Vec<TakeOutcome>>;
        count_dead_letters(queue: &str) -> Answer<u64>;
        bodies(letters: &[DeadLetterId]) -> Answer<Vec<Option<Vec<u8>>>>;
        drop_dead_letters(letters: &[DeadLetterId]) -> Answer<Vec<bool>>;
        pause(queue: &str) -> Answer<()>;
        resume(queue: &str) -> Answer<()>;
        paused() -> Answer<Vec<String>>;
        bind(queue: &str, bindings: &[ExchangeBinding]) -> Answer<()>;
        bindings(exchange: &str) -> Answer<Vec<(String, String)>>;
    }

    fn policy(&self) -> &LedgerPolicy {
        self.store.policy()
    }

    async fn heartbeat(&self, session: &SessionId) -> Answer<bool> {
        if self.fault == HeartbeatsAreIgnored { Ok(true) } else { self.store.heartbeat(session).await }
    }

    async fn close_session(&self, session: &SessionId) -> Answer<()> {
        if self.fault == ClosingDoesNothing { Ok(()) } else { self.store.close_session(session).await }
    }

    async fn reap_sessions(&self) -> Answer<Vec<LostSession>> {
        if self.fault == ReapsNothing { Ok(vec![]) } else { self.store.reap_sessions().await }
    }

    async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> Answer<bool> {
        if self.fault == SoloIsIgnored { Ok(true) } else { self.store.mark_solo(session, message).await }
    }

    async fn settle(&self, session: &SessionId, settlements: &[(MessageKey, Settlement)]) -> Answer<Vec<bool>> {
        let mut settlements = settlements.to_vec();
        for (_, settlement) in &mut settlements {
            match (self.fault, &settlement) {
                (ReturnedCounts, Settlement::Returned) => *settlement = Settlement::Failed { error: String::new() },
                (FailuresAreForgotten, Settlement::Failed { .. }) => *settlement = Settlement::Returned,
                _ => {}
            }
        }
        let settled = self.store.settle(session, &settlements).await?;
        Ok(if self.fault == FencedIsSettled { vec![true; settled.len()] } else { settled })
    }

    async fn add_dead_letters(&self, session: &SessionId, letters: &[NewDeadLetter]) -> Answer<Vec<AddDeadLetterOutcome>> {
        let mut letters = letters.to_vec();
        for letter in &mut letters {
            match self.fault {
                BodiesAreTexts => letter.body = String::from_utf8_lossy(&letter.body).into_owned().into_bytes(),
                EachCallMakesADeadLetter => {
                    let number = self.store.count_dead_letters(letter.message.queue()).await?;
                    let key = format!("{} {number}", letter.message.key());
                    letter.message = MessageKey::new(letter.message.queue(), key)?;
                }
                _ => {}
            }
        }
        self.store.add_dead_letters(session, &letters).await
    }

    async fn dead_letters(
        &self,
        queue: &str,
        filter: &DeadLetterFilter,
        after: Option<DeadLetterId>,
        limit: usize,
    ) -> Answer<DeadLetterPage> {
        let filter = if self.fault == FilterIsIgnored { &DeadLetterFilter::default() } else { filter };
        let limit = if self.fault == ListsOneMore { limit.saturating_add(1) } else { limit };
        self.store.dead_letters(queue, filter, after, limit).await
    }

    async fn begin_replay(&self, letters: &[DeadLetterId]) -> Answer<Vec<ReplayOutcome>> {
        let mut outcomes = self.store.begin_replay(letters).await?;
        for (letter, outcome) in letters.iter().zip(&mut outcomes) {
            if self.fault == ReplaysAreNotExclusive && matches!(outcome, ReplayOutcome::Busy { .. }) {
                *outcome = ReplayOutcome::Begun(Replay { letter: *letter, epoch: 1 });
            }
        }
        Ok(outcomes)
    }

    async fn end_replay(&self, replays: &[Replay]) -> Answer<Vec<bool>> {
        let ended = self.store.end_replay(replays).await?;
        Ok(if self.fault == AnyEpochEnds { vec![true; ended.len()] } else { ended })
    }

    async fn purge_expired(&self, max: usize) -> Answer<u64> {
        if self.fault == DeadLettersExpire {
            self.store.drop_dead_letters(&[DeadLetterId(1)]).await?;
        }
        self.store.purge_expired(max).await
    }
}

finds! { ledger on dyn Ledger, Sqlite::new();
    HeartbeatsAreIgnored: sessions::a_living_session_is_never_lost;
    ReapsNothing: sessions::a_session_without_heartbeats_is_lost_once, schedule::any_schedule_agrees_with_the_model;
    ClosingDoesNothing: sessions::a_closed_session_returns_its_messages_uncounted;
    SoloIsIgnored: solo::a_solo_crash_counts;
    ReturnedCounts: messages::returned_messages_count_nothing;
    FailuresAreForgotten: messages::a_failed_attempt_counts_once;
    FencedIsSettled: messages::a_message_taken_from_a_living_session_is_suspect;
    EachCallMakesADeadLetter: dead_letters::a_message_dies_once, dead_letters::a_crash_after_the_first_step_repeats_the_rest;
    BodiesAreTexts: dead_letters::a_dead_letter_comes_back_whole;
    ListsOneMore: listing::pages_have_every_letter_once;
    FilterIsIgnored: listing::a_filter_picks;
    ReplaysAreNotExclusive: replays::racing_replays_have_one_winner;
    AnyEpochEnds: replays::a_crash_after_the_mark_leaves_the_letter;
    DeadLettersExpire: retention::dead_letters_are_kept;
}
