//! `crawlway request get`, `list` and `watch`

use super::{ListArgs, submit};
use crate::{
    output::{Cell, Column, Output, Table, Tone, one_line},
    service::UserRequests,
};
use crawlway_gateway::dto::UserRequest;
use crawlway_store::requests::{RequestQuery, RequestStatus};

/// Error of an id that no request of the user has.
pub(super) fn unknown(id: &str) -> anyhow::Error {
    anyhow::anyhow!("the user has no request `{}`", one_line(id))
}

pub(super) async fn get(
    requests: &UserRequests,
    id: &str,
    wait: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let found = match wait {
        true => submit::wait_for(requests, &[id.to_owned()], output).await?,
        false => vec![requests.get(id).await?.ok_or_else(|| unknown(id))?],
    };
    submit::finish(found, output)
}

pub(super) async fn list(requests: &UserRequests, args: ListArgs, output: &mut Output) -> anyhow::Result<()> {
    let ListArgs { status, cursor, limit } = args;
    let wanted = RequestQuery { status, after: cursor, limit };
    let listed = requests.list(&wanted).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.requests.is_empty() {
        return Ok(output.line("no requests")?);
    }
    let mut table = Table::new([
        Column::left("created"),
        Column::left("status"),
        Column::left("id"),
        Column::left("url"),
        Column::left("error"),
    ]);
    for request in &listed.requests {
        table.row([
            Cell::new(request.created_at.as_str()),
            Cell::new(request.status.as_str()).tone(tone(&request.status)),
            Cell::new(request.id.as_str()),
            Cell::cut(&request.url, 80),
            error_of(request).map_or_else(Cell::none, |error| Cell::cut(&error, 80)),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = listed.next {
        output.line("")?;
        output.line(&format!("more: repeat with --cursor {next}"))?;
    }
    Ok(())
}

pub(super) async fn watch(
    requests: &UserRequests,
    count: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut seen = 0;
    let each = |event: crawlway_gateway::dto::RequestEvent| {
        if output.is_json() {
            output.line(&serde_json::to_string(&event)?)?;
        } else {
            output.line(&format!("{} {}", event.id, event.status))?;
        }
        output.flush()?;
        seen += 1;
        Ok(count.is_none_or(|count| seen < count))
    };
    requests.watch(each).await
}

fn tone(status: &str) -> Tone {
    if status == RequestStatus::Failed.as_str() { Tone::Alarm } else { Tone::Plain }
}

/// Error message of a failed request.
fn error_of(request: &UserRequest) -> Option<String> {
    let result: serde_json::Value = serde_json::from_str(request.result.as_ref()?.get()).ok()?;
    let is_failed = request.status == RequestStatus::Failed.as_str();
    result.get("errorMessage")?.as_str().filter(|_| is_failed).map(str::to_owned)
}

pub(super) fn print(request: &UserRequest, output: &mut Output) -> anyhow::Result<()> {
    let UserRequest { id, url, email, status, result, created_at } = request;
    output.line(&one_line(url))?;
    output.line(&format!("request {id} of {email}: {status}, created {created_at}"))?;
    if let Some(error) = error_of(request) {
        return Ok(output.line(&one_line(&error))?);
    }
    let Some(result) = result else { return Ok(()) };
    output.line("")?;
    // Numbers that do not fit are printed as they are.
    let pretty = serde_json::from_str::<serde_json::Value>(result.get())
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| result.get().to_owned());
    for line in pretty.lines() {
        output.line(&one_line(line))?;
    }
    Ok(())
}
