//! Access tokens by id and by hash.

use crate::{
    connection::{Arg, Durability, Row, Tx},
    dialect::Sql,
    fault::Fault,
    store::{SqlStore, read, transact},
    time::{millis, timestamp},
};
use crawlway_store::{StoreError, Timestamp, TokenHash, TokenRecord, TokenRole, Tokens};

#[async_trait::async_trait]
impl Tokens for SqlStore {
    async fn add(&self, token: &TokenRecord) -> Result<bool, StoreError> {
        transact!(Durability::PowerLoss, self, tx, add(tx, token))
    }

    async fn list(&self) -> Result<Vec<TokenRecord>, StoreError> {
        static LIST: Sql = Sql::new(
            "SELECT id, hash, email, role, created_at, expires_at, revoked_at FROM tokens ORDER BY num",
        );
        let rows = read!(self, tx, tx.run(&LIST, vec![]))?;
        Ok(rows.iter().map(record).collect::<Result<_, Fault>>()?)
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        static FIND: Sql = Sql::new(
            "SELECT id, hash, email, role, created_at, expires_at, revoked_at FROM tokens WHERE hash = $1",
        );
        let rows = read!(self, tx, tx.run(&FIND, vec![Arg::Bytes(&hash.0)]))?;
        Ok(rows.first().map(record).transpose()?)
    }

    async fn revoke(&self, id: &str, at: Timestamp) -> Result<Option<TokenRecord>, StoreError> {
        static REVOKE: Sql = Sql::new(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1
             RETURNING id, hash, email, role, created_at, expires_at, revoked_at",
        );
        let args = || vec![Arg::Text(id), Arg::Int(millis(at))];
        let rows = transact!(Durability::PowerLoss, self, tx, tx.run(&REVOKE, args()))?;
        Ok(rows.first().map(record).transpose()?)
    }
}

async fn add(tx: &mut Tx, token: &TokenRecord) -> Result<bool, Fault> {
    static ADD: Sql = Sql::new(
        "INSERT INTO tokens (id, hash, email, role, created_at, expires_at, revoked_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    );
    static SAME: Sql = Sql::new("SELECT 1 FROM tokens WHERE id = $1 AND hash = $2");
    let args = vec![
        Arg::Text(&token.id),
        Arg::Bytes(&token.hash.0),
        Arg::Text(&token.email),
        Arg::Text(token.role.as_str()),
        Arg::Int(millis(token.created_at)),
        Arg::OptInt(token.expires_at.map(millis)),
        Arg::OptInt(token.revoked_at.map(millis)),
    ];
    tx.run(&ADD, args).await?;
    let same = tx.run(&SAME, vec![Arg::Text(&token.id), Arg::Bytes(&token.hash.0)]).await?;
    Ok(!same.is_empty())
}

fn record(row: &Row) -> Result<TokenRecord, Fault> {
    let invalid = |what: &str| Fault::Failed(format!("a token with an invalid {what} is stored"));
    Ok(TokenRecord {
        id: row.text(0)?,
        hash: TokenHash(row.bytes(1)?.try_into().map_err(|_| invalid("hash"))?),
        email: row.text(2)?,
        role: TokenRole::from_name(&row.text(3)?).ok_or_else(|| invalid("role"))?,
        created_at: timestamp(row.int(4)?),
        expires_at: row.opt_int(5)?.map(timestamp),
        revoked_at: row.opt_int(6)?.map(timestamp),
    })
}
