//! `crawlway request add` and `crawlway request delete`

use super::{AddArgs, DeleteArgs, show};
use crate::{
    command::{counted, require_confirmation},
    failure::{AlreadyReported, ExitKind, UsageError},
    output::{self, Output, one_line},
    service::UserRequests,
    worker::stop_on_signals,
};
use anyhow::{Context as _, bail};
use crawlway_gateway::dto::{AcceptedRequests, DeletedRequests, UserRequest};

pub(super) async fn add(requests: &UserRequests, args: AddArgs, output: &mut Output) -> anyhow::Result<()> {
    let AddArgs { urls, wait, idempotency_key } = args;
    if wait && requests.is_local() {
        bail!(UsageError(
            "no gateway runs, so that --wait would not end; start one with `crawlway up`".to_owned()
        ));
    }
    let accepted = requests.add(&urls, idempotency_key.as_deref()).await?;
    if wait {
        let ids: Vec<String> = accepted.into_iter().map(|request| request.id).collect();
        let ended = wait_for(requests, &ids, output).await;
        let shown = || output.command(&["request", "get", ids.first().map_or("", String::as_str)]);
        let ended = ended.with_context(|| format!("the request was accepted: `{}` shows it", shown()))?;
        return finish(ended, output);
    }
    if output.is_json() {
        return print_json(accepted, output);
    }
    for request in &accepted {
        output.line(&format!("{} is requested", one_line(&request.url)))?;
        output.line(&format!("request {} of {}", request.id, request.email))?;
    }
    if requests.is_local() {
        let them = if accepted.len() == 1 { "it" } else { "them" };
        output.line(&format!("no gateway runs; `crawlway up` fetches {them}"))?;
    }
    Ok(())
}

/// Waits for the end of requests. After a signal the ids of those that are open are printed.
pub(super) async fn wait_for(
    requests: &UserRequests,
    ids: &[String],
    output: &Output,
) -> anyhow::Result<Vec<UserRequest>> {
    let stop = stop_on_signals()?;
    let mut ended = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        let found = tokio::select! {
            found = requests.wait_for(id) => found?,
            _ = stop.requested() => {
                for id in &ids[place..] {
                    output::warn(&format!(
                        "request {id} goes on; `{}` waits for it",
                        output.command(&["request", "get", id, "--wait"])
                    ));
                }
                return Err(AlreadyReported(ExitKind::Stopped).into());
            }
        };
        ended.push(found.ok_or_else(|| show::unknown(id))?);
    }
    Ok(ended)
}

/// Prints requests that have ended. A failed one is an error.
pub(super) fn finish(ended: Vec<UserRequest>, output: &mut Output) -> anyhow::Result<()> {
    let has_failed = ended.iter().any(|request| request.status == "failed");
    if output.is_json() {
        print_json(ended, output)?;
    } else {
        for (place, request) in ended.iter().enumerate() {
            if place > 0 {
                output.line("")?;
            }
            show::print(request, output)?;
        }
    }
    output.flush()?;
    if has_failed { Err(AlreadyReported(ExitKind::Failed).into()) } else { Ok(()) }
}

/// Prints one request as an object, several as a list.
fn print_json(mut requests: Vec<UserRequest>, output: &mut Output) -> anyhow::Result<()> {
    match requests.len() {
        1 => Ok(output.json(&requests.remove(0))?),
        _ => Ok(output.json(&AcceptedRequests { requests })?),
    }
}

pub(super) async fn delete(
    requests: &UserRequests,
    args: DeleteArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    let DeleteArgs { ids, all, yes } = args;
    let (mut deleted, mut unknown) = (0, Vec::new());
    if all {
        require_confirmation(yes, || "delete all requests of the user?".to_owned())?;
        deleted = requests.delete_all().await?;
    }
    for id in ids {
        match requests.delete(&id).await? {
            true => deleted += 1,
            false => unknown.push(id),
        }
    }
    if output.is_json() {
        output.json(&DeletedRequests { deleted })?;
    } else {
        output.line(&format!("deleted {}", counted(deleted, "request", "requests")))?;
    }
    output.flush()?;
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.iter().for_each(|id| output::error(&show::unknown(id).to_string()));
    Err(AlreadyReported(ExitKind::Failed).into())
}
