//! Lists and change feeds.

use super::{RedisRequests, keys, parse};
use crate::{
    fault::Fault,
    script::{text, texts, unexpected},
};
use crawlway_store::{
    StoreError,
    requests::{Change, ChangeId, CrawlRequest, MAX_PAGE_SIZE, RequestPage, RequestQuery, RequestStatus},
};
use redis::{Pipeline, Value};

/// Status of a deleted request in a change feed.
pub(super) const DELETED: &str = "deleted";
/// Number of fields that one command of a scan looks at.
const SCAN_BATCH: usize = 200;

impl RedisRequests {
    async fn ask(&self, command: redis::Cmd) -> Result<Value, Fault> {
        let mut commands = Pipeline::new();
        commands.add_command(command);
        Ok(self.send(&commands).await?.into_iter().next().unwrap_or(Value::Nil))
    }

    pub(super) async fn page(&self, email: &str, query: &RequestQuery) -> Result<RequestPage, StoreError> {
        let max = query.limit.min(MAX_PAGE_SIZE);
        if max == 0 {
            return Ok(RequestPage { requests: vec![], next: None });
        }
        if query.after.is_none() {
            self.repair_index(email).await?;
        }
        let index = keys::index(email, query.status);
        let mut start = match &query.after {
            None => 0,
            // Requests of the cursor's millisecond are compared by id.
            Some(cursor) => {
                let newer = redis::Cmd::zcount(&index, format!("({}", cursor.created_ms), "+inf");
                match self.ask(newer).await? {
                    Value::Int(newer) => isize::try_from(newer).unwrap_or(0),
                    other => return Err(unexpected(&other).into()),
                }
            }
        };
        let mut requests = Vec::new();
        loop {
            let wanted = isize::try_from(max + 1 - requests.len()).unwrap_or(1);
            let answer =
                self.ask(redis::Cmd::zrevrange_withscores(&index, start, start + wanted - 1)).await?;
            let members = scored(&answer).ok_or_else(|| unexpected(&answer))?;
            if members.is_empty() {
                break;
            }
            start += isize::try_from(members.len()).unwrap_or(0);
            let is_after = |(id, created): &(String, u64)| {
                query.after.as_ref().is_none_or(|cursor| (*created, id) < (cursor.created_ms, &cursor.id))
            };
            let ids: Vec<String> = members.into_iter().filter(is_after).map(|(id, _)| id).collect();
            if ids.is_empty() {
                continue;
            }
            let Value::Array(values) = self.ask(redis::Cmd::hmget(keys::requests(email), ids)).await? else {
                continue;
            };
            // An index may be behind the hash.
            let is_wanted =
                |request: &CrawlRequest| query.status.is_none_or(|status| status == request.status);
            requests.extend(values.iter().filter_map(parse).filter(is_wanted));
            if requests.len() > max {
                break;
            }
        }
        Ok(RequestPage::from_rows(requests, max))
    }

    /// Rebuilds the indexes of a user if they differ from the hash in size.
    async fn repair_index(&self, email: &str) -> Result<(), Fault> {
        let mut sizes = Pipeline::new();
        sizes.hlen(keys::requests(email));
        sizes.zcard(keys::index(email, None));
        let sizes = self.send(&sizes).await?;
        if sizes.first() == sizes.get(1) {
            return Ok(());
        }
        let mut stored = std::collections::HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(keys::requests(email)).arg(&cursor).arg("COUNT").arg(SCAN_BATCH);
            let answer = self.ask(scan).await?;
            let Value::Array(parts) = &answer else { return Err(unexpected(&answer)) };
            let [next, fields] = &parts[..] else { return Err(unexpected(&answer)) };
            let fields = texts(fields).ok_or_else(|| unexpected(&answer))?;
            let mut commands = Pipeline::new();
            for pair in fields.chunks_exact(2) {
                let request = serde_json::from_str::<CrawlRequest>(&pair[1]).ok();
                // A damaged value is counted, so that the sizes agree, and left out of lists.
                let created = request.as_ref().map_or(0, |request| request.created().as_millis());
                commands.zadd(keys::index(email, None), &pair[0], created);
                if let Some(request) = request {
                    commands.zadd(keys::index(email, Some(request.status)), &pair[0], created);
                }
                stored.insert(pair[0].clone());
            }
            self.send(&commands).await?;
            cursor = text(next).unwrap_or_default();
            if cursor == "0" || cursor.is_empty() {
                break;
            }
        }
        let mut commands = Pipeline::new();
        for id in self.indexed(email).await?.iter().filter(|id| !stored.contains(*id)) {
            let indexes = RequestStatus::ALL.map(Some).into_iter().chain([None]);
            indexes.for_each(|status| {
                commands.zrem(keys::index(email, status), id);
            });
        }
        self.send(&commands).await.map(drop)
    }

    async fn indexed(&self, email: &str) -> Result<Vec<String>, Fault> {
        let answer = self.ask(redis::Cmd::zrange(keys::index(email, None), 0, -1)).await?;
        texts(&answer).ok_or_else(|| unexpected(&answer))
    }

    /// Ids of all requests of a user.
    pub(super) async fn ids(&self, email: &str) -> Result<Vec<String>, Fault> {
        self.repair_index(email).await?;
        self.indexed(email).await
    }

    pub(super) async fn read_changes(
        &self,
        feeds: &[(String, ChangeId)],
        max: usize,
    ) -> Result<Vec<Vec<Change>>, StoreError> {
        let mut commands = Pipeline::new();
        for (email, after) in feeds {
            let start = if is_stream_id(&after.0) { format!("({}", after.0) } else { "-".to_owned() };
            commands.cmd("XRANGE").arg(keys::changes(email)).arg(start).arg("+").arg("COUNT").arg(max);
        }
        let answers = self.send(&commands).await?;
        let feed = |answer: &Value| match answer {
            Value::Array(entries) => Ok(entries.iter().filter_map(change).collect()),
            other => Err(unexpected(other).into()),
        };
        answers.iter().map(feed).collect()
    }

    pub(super) async fn last_change_of(&self, email: &str) -> Result<ChangeId, StoreError> {
        let mut last = redis::cmd("XREVRANGE");
        last.arg(keys::changes(email)).arg("+").arg("-").arg("COUNT").arg(1);
        let answer = self.ask(last).await?;
        let Value::Array(entries) = &answer else { return Err(unexpected(&answer).into()) };
        Ok(entries.first().and_then(change).map(|change| change.id).unwrap_or_default())
    }
}

/// Whether a text is an id of a stream: `MILLISECONDS-SEQUENCE`.
fn is_stream_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(time, number)| {
        [time, number].iter().all(|part| part.parse::<u64>().is_ok() && !part.starts_with('+'))
    })
}

/// Entry of a stream.
fn change(entry: &Value) -> Option<Change> {
    let Value::Array(parts) = entry else { return None };
    let [id, fields] = &parts[..] else { return None };
    let fields = texts(fields)?;
    let field = |name: &str| fields.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
    let status = field("status")?;
    let status = if status == DELETED { None } else { Some(status.parse().ok()?) };
    Some(Change { id: ChangeId(text(id)?), request: field("id")?, status })
}

/// Members of a sorted set with their scores.
fn scored(answer: &Value) -> Option<Vec<(String, u64)>> {
    let flat = texts(answer)?;
    let pair = |pair: &[String]| Some((pair[0].clone(), pair[1].parse::<f64>().ok()? as u64));
    flat.chunks_exact(2).map(pair).collect()
}
