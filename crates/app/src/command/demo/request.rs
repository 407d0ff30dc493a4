//! Example of the flow `requests`: a URL requested at the gateway, and the answer of the worker.

use crate::{
    flows::{DemoContext, DemoResult, FlowDemo},
    service::{Target, UserRequests},
};
use anyhow::Context;
use crawlway_gateway::dto::UserRequest;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

/// Host and path of the URL.
const PAGE: (&str, &str) = ("shop.localhost", "/");

/// URL and its answered request.
pub(crate) struct RequestDemo;

impl FlowDemo for RequestDemo {
    fn field(&self) -> &'static str {
        "request"
    }

    fn run<'a>(&'a self, context: &'a DemoContext<'a>) -> BoxFuture<'a, anyhow::Result<DemoResult>> {
        run(context).boxed()
    }
}

/// Requests the URL and waits for the answer.
async fn run(context: &DemoContext<'_>) -> anyhow::Result<DemoResult> {
    let DemoContext { client, web, shell } = context;
    let (host, path) = PAGE;
    let client = client.clone();
    let requests = UserRequests::open(Target::Remote(client), None, true).await?;
    let accepted = requests.add(&[format!("http://{host}:{}{path}", web.port())], None).await?;
    let accepted = accepted.first().context("one request was accepted")?;
    let request = requests.wait_for(&accepted.id).await?.context("the request is gone")?;
    let command = shell.line(&["request", "get", &accepted.id]);
    Ok(DemoResult {
        heading: "Request: a user requests a URL, a worker answers",
        lines: lines(&request),
        json: json!({ "command": command, "request": request }),
        command,
    })
}

/// The answer for people.
fn lines(request: &UserRequest) -> Vec<(&'static str, String)> {
    let UserRequest { email, status, result, .. } = request;
    let result = result.as_ref().and_then(|result| serde_json::from_str::<Value>(result.get()).ok());
    let result = result.unwrap_or_default();
    let title = result["title"].as_str().unwrap_or_default();
    let links =
        crate::command::counted(result["links"].as_array().map_or(0, Vec::len) as u64, "link", "links");
    vec![
        ("status", format!("{status}, for {email}")),
        ("title", title.to_owned()),
        ("result", format!("HTTP {}, {links}", result["statusCode"])),
    ]
}
