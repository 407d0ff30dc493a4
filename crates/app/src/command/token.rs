//! `crawlway token`: add, list and revoke access tokens.

use crate::{
    config::Config,
    failure::UsageError,
    output::{Cell, Column, Output, Table, Tone, one_line},
    service::{Target, Tokens},
    time::ago_text,
};
use clap::{Args, Subcommand};
use crawlway_gateway::{
    dto::{NewToken, TokenRoleView, TokenView},
    service::tokens::lifetime,
};
use crawlway_store::{Timestamp, tokens::normalise_email};

/// Add, list or revoke access tokens of the gateway
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway token add ann@example.org                 a token for a user
  crawlway token add ops@example.org --role admin --expires 90d
  crawlway token list
  crawlway token revoke t1f3a09c2d4

A client sends its token as `Authorization: Bearer TOKEN`. A user has their own requests and the
search; everything else needs an admin. Tokens are stored, as hashes, with the records
(`records.kind`), or in Redis if the records are embedded and the requests are in Redis
(`requests.store`): gateways share them if they share that store.

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token and print it; it is not shown again
    #[command(after_help = "\
Example:
  crawlway token add ann@example.org --expires 30d

The e-mail identifies the user: all tokens of one e-mail have the same requests. It consists of
ASCII characters, and becomes lower case. Only a hash of the token is stored.

JSON:
  {\"token\", \"id\", \"email\", \"role\", \"created_at\", \"expires_at\": null | time, \"revoked_at\": null}

Exit codes: 0 success; 1 failure; 2 invalid command line or setting.")]
    Add {
        /// E-mail of the user
        #[arg(value_name = "EMAIL", value_parser = normalise_email)]
        email: String,
        /// Role: `user` for own requests and search, `admin` for everything
        #[arg(long, value_enum, default_value = "user")]
        role: RoleArg,
        /// Lifetime such as 12h or 30d; without it the token does not expire
        #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
        expires: Option<String>,
    },
    /// List tokens, oldest first, also those that are revoked or expired
    #[command(after_help = "\
Example:
  crawlway token list

JSON:
  {\"tokens\": [{\"id\", \"email\", \"role\", \"created_at\", \"expires_at\": null | time,
    \"revoked_at\": null | time}]}

Exit codes: 0 success, also for an empty list; 1 failure; 2 invalid command line or setting.")]
    List,
    /// Revoke a token, for all gateways within 5 seconds
    #[command(after_help = "\
Example:
  crawlway token revoke t1f3a09c2d4

A revoked token stays in the list. Revoking it again changes nothing.

JSON:
  as an element of `token list`

Exit codes: 0 success; 1 failure, or not found; 2 invalid command line or setting.")]
    Revoke {
        /// Id of the token, as in `token list`
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RoleArg {
    User,
    Admin,
}

/// Checks a lifetime before any store is opened.
fn parse_lifetime(text: &str) -> Result<String, String> {
    lifetime(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) async fn run(args: TokenArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let TokenCommand::Revoke { id } = &args.command
        && id.starts_with("cw_")
    {
        let problem = "this is a token; revoke it by its id, which `crawlway token list` shows";
        return Err(UsageError(problem.to_owned()).into());
    }
    let creates = matches!(args.command, TokenCommand::Add { .. });
    let tokens = Tokens::open(Target::of(config)?, creates).await?;
    let done = match args.command {
        TokenCommand::Add { email, role, expires } => {
            let role = match role {
                RoleArg::User => TokenRoleView::User,
                RoleArg::Admin => TokenRoleView::Admin,
            };
            add(&tokens, &NewToken { email, role, expires }, output).await
        }
        TokenCommand::List => list(&tokens, output).await,
        TokenCommand::Revoke { id } => revoke(&tokens, &id, output).await,
    };
    tokens.close().await;
    done
}

/// Prints the token alone on standard output, so that a script can store it.
async fn add(tokens: &Tokens, new: &NewToken, output: &mut Output) -> anyhow::Result<()> {
    let created = tokens.add(new).await?;
    if output.is_json() {
        return Ok(output.json(&created)?);
    }
    let TokenView { id, email, role, expires_at, .. } = &created.record;
    let expiry =
        expires_at.as_ref().map_or_else(|| "does not expire".to_owned(), |at| format!("expires {at}"));
    output.line(&created.token)?;
    output.line(&format!(
        "token `{}` of {} (role {}, {expiry}); it is not shown again",
        one_line(id),
        one_line(email),
        name(*role)
    ))?;
    Ok(())
}

async fn list(tokens: &Tokens, output: &mut Output) -> anyhow::Result<()> {
    let listed = tokens.list().await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.tokens.is_empty() {
        return Ok(output.line("no tokens; `crawlway token add EMAIL` makes one")?);
    }
    let mut table = Table::new([
        Column::left("id"),
        Column::left("email"),
        Column::left("role"),
        Column::left("created"),
        Column::left("state"),
    ]);
    let now = Timestamp::now();
    for token in listed.tokens {
        let (state, tone) = state(&token, now);
        table.row([
            Cell::new(token.id),
            Cell::new(token.email),
            Cell::new(name(token.role)),
            Cell::new(ago_text(&token.created_at, now)),
            Cell::new(state).tone(tone),
        ]);
    }
    Ok(output.table(&table)?)
}

async fn revoke(tokens: &Tokens, id: &str, output: &mut Output) -> anyhow::Result<()> {
    let revoked = tokens.revoke(id).await?;
    if output.is_json() {
        return Ok(output.json(&revoked)?);
    }
    output.line(&format!("revoked token `{}` of {}", one_line(&revoked.id), one_line(&revoked.email)))?;
    Ok(())
}

fn name(role: TokenRoleView) -> &'static str {
    crawlway_store::TokenRole::from(role).as_str()
}

/// State of a token now, as text.
fn state(token: &TokenView, now: Timestamp) -> (String, Tone) {
    if let Some(at) = &token.revoked_at {
        return (format!("revoked {}", ago_text(at, now)), Tone::Notice);
    }
    match &token.expires_at {
        Some(at) if Timestamp::from_iso(at).is_some_and(|at| at <= now) => {
            (format!("expired {}", ago_text(at, now)), Tone::Notice)
        }
        Some(at) => (format!("valid until {at}"), Tone::Plain),
        None => ("valid".to_owned(), Tone::Plain),
    }
}
