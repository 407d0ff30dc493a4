//! Access tokens: making, listing and revoking.

use super::{Error, ErrorKind, excerpt};
use crate::{
    auth::TOKEN_PREFIX,
    dto::{CreatedToken, NewToken, TokenList},
};
use crawlway_clock::{Timestamp, parse_duration};
use crawlway_store::{TokenHash, TokenRecord, Tokens, tokens::normalise_email};
use std::{fmt::Write, time::Duration};

/// Longest lifetime of a token that expires.
const MAX_LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// Random octets of a token: 256 bits.
const SECRET_OCTETS: usize = 32;
/// Random octets of an id.
const ID_OCTETS: usize = 5;

/// Makes a token. The result has its secret, which is stored nowhere.
pub async fn add(tokens: &dyn Tokens, new: &NewToken, now: Timestamp) -> Result<CreatedToken, Error> {
    let email = normalise_email(&new.email).map_err(|expected| Error::invalid(expected).field("email"))?;
    let expires_at =
        new.expires.as_deref().map(|text| lifetime(text).map(|lifetime| now + lifetime)).transpose()?;
    let secret = format!("{TOKEN_PREFIX}{}", random_hex::<SECRET_OCTETS>()?);
    let record = TokenRecord {
        id: format!("t{}", random_hex::<ID_OCTETS>()?),
        hash: TokenHash::of(&secret),
        email,
        role: new.role.into(),
        created_at: now,
        expires_at,
        revoked_at: None,
    };
    match tokens.add(&record).await? {
        true => Ok(CreatedToken { token: secret, record: record.into() }),
        // One in 10^12, with a token already there.
        false => Err(Error::new(ErrorKind::Conflict, "the random id is taken; repeat the request")),
    }
}

/// All tokens, oldest first.
pub async fn list(tokens: &dyn Tokens) -> Result<TokenList, Error> {
    Ok(TokenList { tokens: tokens.list().await?.into_iter().map(Into::into).collect() })
}

/// Revokes a token. One that is revoked stays so, with the time of the first revocation.
pub async fn revoke(tokens: &dyn Tokens, id: &str, now: Timestamp) -> Result<TokenRecord, Error> {
    tokens.revoke(id, now).await?.ok_or_else(|| unknown(id))
}

/// Error of an id that no token has.
pub fn unknown(id: &str) -> Error {
    let text = format!("there is no token with the id `{}`; list the tokens to see their ids", excerpt(id));
    Error::not_found(text).field("id")
}

/// Parses the lifetime of a token.
pub fn lifetime(text: &str) -> Result<Duration, Error> {
    let lifetime = parse_duration(text).filter(|lifetime| !lifetime.is_zero() && *lifetime <= MAX_LIFETIME);
    lifetime.ok_or_else(|| {
        Error::invalid("expected a duration of up to 36500d, such as \"12h\" or \"30d\"").field("expires")
    })
}

/// Random octets of the operating system, in hexadecimal.
fn random_hex<const OCTETS: usize>() -> Result<String, Error> {
    let mut octets = [0; OCTETS];
    getrandom::fill(&mut octets).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the operating system has no random numbers: {error}"))
    })?;
    let mut text = String::with_capacity(2 * OCTETS);
    for octet in octets {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    Ok(text)
}
