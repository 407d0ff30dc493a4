//! Faults of the requests of users.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{RequestPolicy, RequestStore, requests::*};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    ForgetsTheOutbox,
    LastAnswerWins,
    DropsUnknownAnswers,
    StatusIsIgnored,
    ListsOneMore,
    NothingExpires,
    AnswersBringBackTheDeleted,
    FeedStartsAnew,
    NothingIsPurged,
    PurgesAtOnce,
}
use Fault::*;

faulty! { RequestStore {
        add(requests: &[CrawlRequest]) -> Answer<Vec<AddOutcome>>;
        published(requests: &[CrawlRequest]) -> Answer<()>;
        get(key: &RequestKey) -> Answer<Option<CrawlRequest>>;
        delete(key: &RequestKey) -> Answer<bool>;
        delete_all(email: &str) -> Answer<u64>;
        last_change(email: &str) -> Answer<ChangeId>;
        ready() -> Answer<()>;
    }

    fn policy(&self) -> &RequestPolicy {
        self.store.policy()
    }

    fn changed(&self) -> &tokio::sync::Notify {
        self.store.changed()
    }

    async fn take_unpublished(&self, max: usize) -> Answer<Vec<CrawlRequest>> {
        self.store.take_unpublished(if self.fault == ForgetsTheOutbox { 0 } else { max }).await
    }

    async fn apply(&self, answers: &[crawlway_store::requests::Answer]) -> Answer<Vec<ApplyOutcome>> {
        for answer in answers {
            let current = self.store.get(&answer.key).await?;
            match self.fault {
                LastAnswerWins if current.is_some() => drop(self.store.delete(&answer.key).await?),
                DropsUnknownAnswers if current.is_none() => return Ok(vec![ApplyOutcome::Created; answers.len()]),
                AnswersBringBackTheDeleted if current.is_none() => {
                    self.store.add(&[answer.request()]).await?;
                }
                _ => {}
            }
            if self.fault == LastAnswerWins && current.is_some() {
                self.store.add(&[answer.request()]).await?;
            }
        }
        self.store.apply(answers).await
    }

    async fn expire(&self, reason: &str, max: usize) -> Answer<usize> {
        if self.fault == NothingExpires { Ok(0) } else { self.store.expire(reason, max).await }
    }

    async fn purge(&self, min_age: std::time::Duration, max: usize) -> Answer<usize> {
        match self.fault {
            NothingIsPurged => Ok(0),
            PurgesAtOnce => self.store.purge(std::time::Duration::ZERO, max).await,
            _ => self.store.purge(min_age, max).await,
        }
    }

    async fn list(&self, email: &str, query: &RequestQuery) -> Answer<RequestPage> {
        let mut query = query.clone();
        match self.fault {
            StatusIsIgnored => query.status = None,
            ListsOneMore => query.limit += 1,
            _ => {}
        }
        self.store.list(email, &query).await
    }

    async fn changes(&self, feeds: &[(String, ChangeId)], max: usize) -> Answer<Vec<Vec<Change>>> {
        let mut feeds = feeds.to_vec();
        if self.fault == FeedStartsAnew {
            feeds.iter_mut().for_each(|feed| feed.1 = ChangeId::default());
        }
        self.store.changes(&feeds, max).await
    }
}

finds! { requests on dyn RequestStore, Sqlite::new();
    ForgetsTheOutbox: outbox::an_added_request_is_published_again_until_it_is_confirmed;
    LastAnswerWins: answers::the_first_answer_counts;
    DropsUnknownAnswers: answers::an_answer_to_an_unknown_request_is_stored;
    StatusIsIgnored: listing::a_status_is_picked;
    ListsOneMore: listing::pages_have_every_request_once;
    NothingExpires: deadlines::a_request_without_an_answer_fails_at_its_deadline;
    AnswersBringBackTheDeleted: listing::a_deleted_request_is_gone_and_its_answer_ignored;
    FeedStartsAnew: changes::a_reader_goes_on_where_it_was;
    NothingIsPurged: retention::no_more_are_purged_than_asked;
    PurgesAtOnce: retention::an_ended_request_is_purged_after_its_retention;
}
