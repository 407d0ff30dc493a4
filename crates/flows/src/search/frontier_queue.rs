//! The frontier as one of the queues, so that the same commands manage both.

use super::source::frontier_queue;
use crawlway_broker::{
    BrokerError, DeadLetter, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters,
    Depth, Failure, Headers, Message, MessageId, QueueAdmin, QueueName, QueueSpec, ReplayOutcome,
};
use crawlway_store::{Frontier, StoreError, frontier::DeadUrl};
use std::sync::Arc;

/// Page size of store calls.
const PAGE_SIZE: usize = 500;

/// Queues of a broker with the frontier as one more queue, which can be listed and whose dead letters can be read, replayed and dropped.
/// Other operations on it are refused, with the alternative.
#[derive(Debug)]
pub struct QueuesWithFrontier {
    queues: Arc<dyn DeadLetters>,
    frontier: Arc<dyn Frontier>,
}

impl QueuesWithFrontier {
    /// Adds this frontier to the queues of a broker.
    pub fn new(queues: Arc<dyn DeadLetters>, frontier: Arc<dyn Frontier>) -> Self {
        Self { queues, frontier }
    }

    fn is_frontier(queue: &QueueName) -> bool {
        *queue == frontier_queue()
    }

    fn refuse_frontier(queue: &QueueName) -> Result<(), BrokerError> {
        if !Self::is_frontier(queue) {
            return Ok(());
        }
        let problem = "is the crawls' frontier and no queue; pause, resume or cancel its crawls instead";
        Err(BrokerError::InvalidSpec { queue: queue.clone(), problem: problem.to_owned() })
    }

    fn spec(&self) -> QueueSpec {
        let policy = self.frontier.policy();
        let spec = QueueSpec::new(frontier_queue()).lease(policy.lease).max_attempts(policy.max_attempts);
        spec.max_solo_crashes(policy.max_solo_crashes)
    }

    async fn frontier_depth(&self) -> Result<Depth, StoreError> {
        let mut depth = Depth { exact: true, ..Depth::default() };
        let mut after = None;
        loop {
            let crawls = self.frontier.crawls(after.as_ref(), PAGE_SIZE).await?;
            for crawl in &crawls {
                // Pending URLs of an ended crawl will not be fetched.
                if !crawl.state.has_ended() {
                    depth.ready += crawl.counts.waiting;
                }
                depth.in_flight += crawl.counts.in_flight;
                depth.dead += crawl.counts.dead;
            }
            match crawls.last() {
                Some(last) if crawls.len() == PAGE_SIZE => after = Some(last.id.clone()),
                _ => return Ok(depth),
            }
        }
    }

    /// Page of matching dead letters, with its pagination cursor.
    async fn matching(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let queue = frontier_queue();
        let mut letters = Vec::new();
        let mut after = after.map(|DeadLetterId(after)| after.clone());
        while letters.len() < limit {
            let page = self.frontier.dead(None, after.as_deref(), PAGE_SIZE).await.map_err(unavailable)?;
            let (mut scanned, in_page) = (0, page.urls.len());
            for url in page.urls {
                if letters.len() == limit {
                    break;
                }
                scanned += 1;
                let letter = letter(&queue, url);
                if filter.matches(&letter) {
                    letters.push(letter);
                }
            }
            if scanned < in_page {
                // Only the frontier can make a cursor for this position.
                let page = self.frontier.dead(None, after.as_deref(), scanned).await.map_err(unavailable)?;
                after = page.next;
                break;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(DeadLetterPage { letters, next: after.map(DeadLetterId) })
    }

    async fn matching_items(&self, filter: &DeadLetterFilter) -> Result<Vec<String>, BrokerError> {
        if let Some(DeadLetterId(item)) = &filter.id
            && *filter == DeadLetterFilter::with_id(DeadLetterId(item.clone()))
        {
            return Ok(vec![item.clone()]);
        }
        if !filter.ids.is_empty() && *filter == DeadLetterFilter::with_ids(filter.ids.clone()) {
            return Ok(filter.ids.iter().map(|DeadLetterId(item)| item.clone()).collect());
        }
        let all = self.matching(filter, None, usize::MAX).await?;
        Ok(all.letters.into_iter().map(|letter| letter.id.0).collect())
    }
}

fn letter(queue: &QueueName, url: DeadUrl) -> DeadLetter {
    let failure = |error: String| Failure { error, at: url.dead_at };
    DeadLetter {
        id: DeadLetterId(url.item.clone()),
        queue: queue.clone(),
        message: Message {
            id: MessageId::from(url.item.as_str()),
            key: Some(url.url.clone()),
            group: None,
            headers: Headers::new(),
            body: serde_json::json!({ "crawl": url.crawl, "url": url.url }).to_string().into(),
            published_at: url.dead_at,
            defects: Vec::new(),
        },
        cause: match &url.last_error {
            _ if url.worker_lost => DeadLetterCause::WorkerLost,
            Some(error) if *error == url.reason => DeadLetterCause::Refused,
            _ => DeadLetterCause::AttemptsUsedUp,
        },
        reason: url.reason,
        attempts: url.attempts,
        first_error: url.first_error.map(failure),
        last_error: url.last_error.map(failure),
        dead_at: url.dead_at,
        replays: url.replays,
    }
}

fn unavailable(error: StoreError) -> BrokerError {
    match error {
        StoreError::Closed => BrokerError::Closed,
        StoreError::Invalid { problem } => BrokerError::InvalidSpec { queue: frontier_queue(), problem },
        other => BrokerError::Unavailable { detail: other.to_string() },
    }
}

#[async_trait::async_trait]
impl QueueAdmin for QueuesWithFrontier {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        let mut queues = self.queues.queues().await?;
        queues.push(self.spec());
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(queues)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        if Self::is_frontier(queue) {
            return self.frontier_depth().await.map_err(unavailable);
        }
        self.queues.depth(queue).await
    }

    async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        if Self::is_frontier(queue) {
            return Ok(self.depth(queue).await?.pending());
        }
        self.queues.pending(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        Self::refuse_frontier(queue)?;
        self.queues.purge(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        Self::refuse_frontier(queue)?;
        self.queues.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        Self::refuse_frontier(queue)?;
        self.queues.resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for QueuesWithFrontier {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        if Self::is_frontier(queue) {
            return self.matching(filter, after, limit).await;
        }
        self.queues.dead_letters(queue, filter, after, limit).await
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        if Self::is_frontier(queue) {
            let items = self.matching_items(filter).await?;
            let replayed = self.frontier.replay(&items).await.map_err(unavailable)?;
            return Ok(ReplayOutcome { count: count(&replayed), stopped: None });
        }
        self.queues.replay(queue, filter).await
    }

    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        if Self::is_frontier(queue) {
            let items = self.matching_items(filter).await?;
            let dropped = self.frontier.drop_dead_letters(&items).await.map_err(unavailable)?;
            return Ok(count(&dropped));
        }
        self.queues.drop_dead_letters(queue, filter).await
    }
}

fn count(answers: &[bool]) -> u64 {
    answers.iter().filter(|answer| **answer).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::crawl::new_url;
    use crawlway_store::{
        FrontierPolicy,
        frontier::{CrawlId, NewCrawl, NewUrl, UrlVerdict},
    };
    use crawlway_store_sql::{Database, SqlOptions, SqlStore};
    use std::time::Duration;

    #[tokio::test]
    async fn a_dead_url_has_the_cause_of_its_death() {
        let folder = tempfile::tempdir().unwrap();
        let policy = FrontierPolicy { max_attempts: 1, max_solo_crashes: 1, ..FrontierPolicy::default() };
        let place = Database::Sqlite(folder.path().join("records.db"));
        let frontier = SqlStore::open(SqlOptions { policy, ..SqlOptions::new(place) }).await.unwrap();
        let id = CrawlId::new("c").unwrap();
        let crawl = NewCrawl { id: id.clone(), definition: String::new(), max_pages: None };
        frontier.open_crawl(&crawl).await.unwrap();
        let url = |host: &str| {
            let url = format!("https://{host}/").parse().unwrap();
            NewUrl { item: host.to_owned(), host: host.to_owned(), ..new_url(url, 0, 0, None) }
        };
        frontier.add(&id, &["fails", "refused", "kills"].map(url)).await.unwrap();
        let (why, rest) = ("no".to_owned(), Duration::ZERO);
        for taken in frontier.claim_next(3, 1).await.unwrap() {
            let ending = match taken.host.as_str() {
                "fails" => UrlVerdict::Retry { after: rest, error: why.clone(), host_delay: rest },
                "refused" => UrlVerdict::Dead { reason: why.clone(), host_delay: rest },
                _ => {
                    assert!(frontier.mark_solo(taken.receipt).await.unwrap());
                    continue;
                }
            };
            frontier.settle(&[(taken.receipt, ending)]).await.unwrap();
        }
        frontier.reclaim_all().await.unwrap();
        let dead = frontier.dead(None, None, 10).await.unwrap().urls.into_iter();
        let mut causes: Vec<_> =
            dead.map(|url| letter(&frontier_queue(), url)).map(|l| (l.id.0, l.cause)).collect();
        causes.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("fails", DeadLetterCause::AttemptsUsedUp),
            ("kills", DeadLetterCause::WorkerLost),
            ("refused", DeadLetterCause::Refused),
        ];
        assert_eq!(causes, expected.map(|(item, cause)| (item.to_owned(), cause)));
    }
}
