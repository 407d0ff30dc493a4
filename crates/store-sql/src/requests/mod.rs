//! Requests of users: a row each, which is also its outbox entry and its deadline, and the change feed of each user.

mod deletion;
mod rows;

use crate::{
    connection::{Arg, Durability::PowerLoss, Tx},
    dialect::Sql,
    fault::Fault,
    store::{SqlStore, read, transact},
    time::{after, millis, saturating_i64},
};
use crawlway_store::{
    RequestPolicy, RequestStore, StoreError,
    requests::{
        AddOutcome, Answer, ApplyOutcome, Change, ChangeId, CrawlRequest, DELETED_TTL, MAX_PAGE_SIZE,
        RequestKey, RequestPage, RequestQuery, RequestStatus, error_result,
    },
};
use rows::{add_change, change, end, get, insert_answered, last_change, request};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Columns for [`rows::request`].
macro_rules! columns {
    () => {
        "id, url, email, status, result, created_at"
    };
}
use columns;

/// Requests in a SQL database. [`SqlStore::requests`] opens them; clones share its connections.
#[derive(Debug, Clone)]
pub struct SqlRequests {
    store: SqlStore,
    policy: RequestPolicy,
    changed: Arc<Notify>,
}

impl SqlStore {
    /// Requests in this database, over the same connections. All processes should have the same policy.
    pub fn requests(&self, policy: RequestPolicy) -> SqlRequests {
        SqlRequests { store: self.clone(), policy, changed: Arc::default() }
    }
}

impl SqlRequests {
    /// The time, within a transaction: its begin has measured the server's clock.
    fn now(&self) -> i64 {
        self.store.0.time.now()
    }

    async fn add_one(&self, tx: &mut Tx, request: &CrawlRequest) -> Result<AddOutcome, Fault> {
        // A request that its user has deleted is new.
        static ADD: Sql = Sql::new(
            "INSERT INTO crawl_requests (email, id, url, status, created_at, created, deadline, publish_at)
             VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7)
             ON CONFLICT (email, id) DO UPDATE SET
                 url = excluded.url, status = excluded.status, result = NULL, created_at = excluded.created_at,
                 created = excluded.created, deadline = excluded.deadline, publish_at = excluded.publish_at, deleted_at = NULL,
                 ended_at = NULL
             WHERE crawl_requests.deleted_at IS NOT NULL
             RETURNING id",
        );
        let CrawlRequest { id, url, email, created_at, .. } = request;
        let now = self.now();
        let args = vec![
            Arg::Text(email),
            Arg::Text(id),
            Arg::Text(url),
            Arg::Text(created_at),
            Arg::Int(millis(request.created())),
            Arg::Int(after(now, self.policy.timeout)),
            Arg::Int(after(now, self.policy.publish_timeout)),
        ];
        if !tx.run(&ADD, args).await?.is_empty() {
            add_change(tx, email, id, Some(RequestStatus::Pending)).await?;
            return Ok(AddOutcome::Added);
        }
        match get(tx, &request.key()).await? {
            Some(existing) => Ok(AddOutcome::Exists(existing)),
            None => Err(Fault::Conflict("a request was deleted while it was added".to_owned())),
        }
    }

    async fn apply_one(&self, tx: &mut Tx, answer: &Answer) -> Result<ApplyOutcome, Fault> {
        static READ: Sql = Sql::new(concat!(
            "SELECT ",
            columns!(),
            ", deleted_at FROM crawl_requests WHERE email = $1 AND id = $2 {for update}"
        ));
        let rows = tx.run(&READ, key_args(&answer.key)).await?;
        let Some(row) = rows.first() else {
            insert_answered(tx, &answer.request(), self.now()).await?;
            add_change(tx, &answer.key.email, &answer.key.id, Some(answer.status())).await?;
            return Ok(ApplyOutcome::Created);
        };
        if row.opt_int(6)?.is_some() {
            return Ok(ApplyOutcome::Deleted);
        }
        let current = request(row)?;
        let keeps_late = self.policy.keep_late_answers && answer.result.is_ok();
        match current.status {
            RequestStatus::Pending => {}
            RequestStatus::Failed if keeps_late => {}
            ended => return Ok(ApplyOutcome::AlreadyEnded(ended)),
        }
        end(tx, &current.answered(answer), self.now()).await?;
        Ok(ApplyOutcome::Applied)
    }

    async fn expire_due(&self, tx: &mut Tx, reason: &str, max: usize) -> Result<usize, Fault> {
        static DUE: Sql = Sql::new(concat!(
            "SELECT ",
            columns!(),
            " FROM crawl_requests WHERE deadline <= $1 ORDER BY deadline {limit $2} {skip locked}"
        ));
        static PURGE: Sql = Sql::new(
            "DELETE FROM crawl_requests WHERE (email, id) IN
                 (SELECT email, id FROM crawl_requests WHERE deleted_at <= $1 {limit $2})",
        );
        let (now, limit) = (self.now(), saturating_i64(max as u64));
        let due = tx.run(&DUE, vec![Arg::Int(now), Arg::Int(limit)]).await?;
        for row in &due {
            let (status, result) = (RequestStatus::Failed, Some(error_result(reason)));
            end(tx, &CrawlRequest { status, result, ..request(row)? }, now).await?;
        }
        let kept = saturating_i64(DELETED_TTL.as_millis() as u64);
        tx.run(&PURGE, vec![Arg::Int(now.saturating_sub(kept)), Arg::Int(limit)]).await?;
        Ok(due.len())
    }

    async fn take_due(&self, tx: &mut Tx, max: usize) -> Result<Vec<CrawlRequest>, Fault> {
        static TAKE: Sql = Sql::new(concat!(
            "UPDATE crawl_requests SET publish_at = $2 WHERE (email, id) IN
                 (SELECT email, id FROM crawl_requests WHERE publish_at <= $1 ORDER BY publish_at {limit $3} {skip locked})
             RETURNING ",
            columns!()
        ));
        let now = self.now();
        let again = after(now, self.policy.publish_timeout);
        let args = vec![Arg::Int(now), Arg::Int(again), Arg::Int(saturating_i64(max as u64))];
        tx.run(&TAKE, args).await?.iter().map(request).collect()
    }
}

#[async_trait::async_trait]
impl RequestStore for SqlRequests {
    fn policy(&self) -> &RequestPolicy {
        &self.policy
    }

    fn changed(&self) -> &Notify {
        &self.changed
    }

    async fn add(&self, requests: &[CrawlRequest]) -> Result<Vec<AddOutcome>, StoreError> {
        let order = in_order(requests, |request| (&*request.email, &*request.id));
        let mut outcomes = transact!(PowerLoss, self.store, tx, async {
            let mut outcomes = Vec::with_capacity(requests.len());
            for place in &order {
                outcomes.push((*place, self.add_one(tx, &requests[*place]).await?));
            }
            Ok(outcomes)
        })?;
        self.changed.notify_one();
        outcomes.sort_by_key(|(place, _)| *place);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    async fn published(&self, requests: &[CrawlRequest]) -> Result<(), StoreError> {
        static PUBLISHED: Sql = Sql::new(
            "UPDATE crawl_requests SET publish_at = NULL WHERE email = $1 AND id = $2 AND publish_at IS NOT NULL",
        );
        let order = in_order(requests, |request| (&*request.email, &*request.id));
        transact!(self.store, tx, async {
            for place in &order {
                tx.run(&PUBLISHED, key_args(&requests[*place].key())).await?;
            }
            Ok(())
        })
    }

    async fn take_unpublished(&self, max: usize) -> Result<Vec<CrawlRequest>, StoreError> {
        transact!(self.store, tx, self.take_due(tx, max))
    }

    async fn apply(&self, answers: &[Answer]) -> Result<Vec<ApplyOutcome>, StoreError> {
        let order = in_order(answers, |answer| (&*answer.key.email, &*answer.key.id));
        let mut outcomes = transact!(PowerLoss, self.store, tx, async {
            let mut outcomes = Vec::with_capacity(answers.len());
            for place in &order {
                outcomes.push((*place, self.apply_one(tx, &answers[*place]).await?));
            }
            Ok(outcomes)
        })?;
        self.changed.notify_one();
        outcomes.sort_by_key(|(place, _)| *place);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    async fn expire(&self, reason: &str, max: usize) -> Result<usize, StoreError> {
        let expired = transact!(self.store, tx, self.expire_due(tx, reason, max))?;
        self.changed.notify_one();
        Ok(expired)
    }

    async fn get(&self, key: &RequestKey) -> Result<Option<CrawlRequest>, StoreError> {
        read!(self.store, tx, get(tx, key))
    }

    async fn list(&self, email: &str, query: &RequestQuery) -> Result<RequestPage, StoreError> {
        macro_rules! list {
            ($status:literal) => {{
                static LIST: Sql = Sql::new(concat!(
                    "SELECT ",
                    columns!(),
                    " FROM crawl_requests WHERE email = $1 AND deleted_at IS NULL AND (created, id) < ($2, $3) ",
                    $status,
                    " ORDER BY created DESC, id DESC {limit $4}"
                ));
                &LIST
            }};
        }
        let max = query.limit.min(MAX_PAGE_SIZE);
        let (created, id) = match &query.after {
            Some(cursor) => (saturating_i64(cursor.created_ms), &*cursor.id),
            None => (i64::MAX, ""),
        };
        let statement = if query.status.is_some() { list!("AND status = $5") } else { list!("") };
        let rows = read!(self.store, tx, async {
            let mut args = vec![
                Arg::Text(email),
                Arg::Int(created),
                Arg::Text(id),
                Arg::Int(saturating_i64(max as u64 + 1)),
            ];
            args.extend(query.status.map(|status| Arg::Text(status.as_str())));
            tx.run(statement, args).await
        })?;
        let requests: Result<Vec<CrawlRequest>, Fault> = rows.iter().map(request).collect();
        Ok(RequestPage::from_rows(requests?, max))
    }

    async fn delete(&self, key: &RequestKey) -> Result<bool, StoreError> {
        let deleted = transact!(PowerLoss, self.store, tx, self.delete_rows(tx, &key.email, Some(&key.id)))?;
        self.changed.notify_one();
        Ok(deleted > 0)
    }

    async fn delete_all(&self, email: &str) -> Result<u64, StoreError> {
        let deleted = transact!(PowerLoss, self.store, tx, self.delete_rows(tx, email, None))?;
        self.changed.notify_one();
        Ok(deleted)
    }

    async fn purge(&self, min_age: Duration, max: usize) -> Result<usize, StoreError> {
        transact!(self.store, tx, self.purge_ended(tx, min_age, max))
    }

    async fn changes(
        &self,
        feeds: &[(String, ChangeId)],
        max: usize,
    ) -> Result<Vec<Vec<Change>>, StoreError> {
        static CHANGES: Sql = Sql::new(
            "SELECT num, id, status FROM request_changes WHERE email = $1 AND num > $2 ORDER BY num {limit $3}",
        );
        read!(self.store, tx, async {
            let mut changes = Vec::with_capacity(feeds.len());
            for (email, after) in feeds {
                let last = last_change(tx, email).await?;
                // A feed that has not come so far has lost its changes.
                let after = after.0.parse::<i64>().ok().filter(|after| *after <= last).unwrap_or(0);
                let args = vec![Arg::Text(email), Arg::Int(after), Arg::Int(saturating_i64(max as u64))];
                let rows = tx.run(&CHANGES, args).await?;
                changes.push(rows.iter().map(change).collect::<Result<Vec<_>, Fault>>()?);
            }
            Ok(changes)
        })
    }

    async fn last_change(&self, email: &str) -> Result<ChangeId, StoreError> {
        let last = read!(self.store, tx, last_change(tx, email))?;
        Ok(if last == 0 { ChangeId::default() } else { ChangeId(last.to_string()) })
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.store.ping().await
    }
}

/// Places of a batch in the order of keys, against deadlocks between processes.
fn in_order<'a, T>(batch: &'a [T], key: impl Fn(&'a T) -> (&'a str, &'a str)) -> Vec<usize> {
    let mut order: Vec<usize> = (0..batch.len()).collect();
    order.sort_by_key(|place| key(&batch[*place]));
    order
}

fn key_args(key: &RequestKey) -> Vec<Arg<'_>> {
    vec![Arg::Text(&key.email), Arg::Text(&key.id)]
}
