//! Deletion of requests: by their users, and at the end of their retention. A deleted row is the mark of its request.

use super::{SqlRequests, rows::add_change};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    time::saturating_i64,
};
use std::time::Duration;

/// Statement that deletes requests at the time `$1`.
macro_rules! delete {
    ($which:literal) => {{
        static DELETE: Sql = Sql::new(concat!(
            "UPDATE crawl_requests SET deleted_at = $1, url = '', result = NULL, deadline = NULL, publish_at = NULL, ended_at = NULL
             WHERE deleted_at IS NULL AND ",
            $which,
            " RETURNING email, id"
        ));
        &DELETE
    }};
}

impl SqlRequests {
    /// Deletes a request of a user, or all of them. Returns how many there were.
    pub(super) async fn delete_rows(&self, tx: &mut Tx, email: &str, id: Option<&str>) -> Result<u64, Fault> {
        let statement = if id.is_some() { delete!("email = $2 AND id = $3") } else { delete!("email = $2") };
        let args = [Arg::Int(self.now()), Arg::Text(email)].into_iter().chain(id.map(Arg::Text)).collect();
        Ok(delete_with(tx, statement, args).await? as u64)
    }

    /// Deletes requests that ended at least this long ago.
    pub(super) async fn purge_ended(
        &self,
        tx: &mut Tx,
        min_age: Duration,
        max: usize,
    ) -> Result<usize, Fault> {
        let statement = delete!(
            "(email, id) IN
                 (SELECT email, id FROM crawl_requests WHERE ended_at <= $2 ORDER BY ended_at {limit $3} {skip locked})"
        );
        let now = self.now();
        let age = i64::try_from(min_age.as_millis()).unwrap_or(i64::MAX);
        let args =
            vec![Arg::Int(now), Arg::Int(now.saturating_sub(age)), Arg::Int(saturating_i64(max as u64))];
        delete_with(tx, statement, args).await
    }
}

async fn delete_with(tx: &mut Tx, statement: &'static Sql, args: Vec<Arg<'_>>) -> Result<usize, Fault> {
    let rows = tx.run(statement, args).await?;
    let keys: Result<Vec<(String, String)>, Fault> =
        rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect();
    let mut deleted = keys?;
    // Feeds are locked in this order, against deadlocks between processes.
    deleted.sort();
    for (email, id) in &deleted {
        add_change(tx, email, id, None).await?;
    }
    Ok(deleted.len())
}
