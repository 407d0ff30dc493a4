//! Example of the flow `requests`: a URL requested at the gateway, and the answer of the worker.

use super::examples::Shell;
use crate::{
    config::Config,
    output::{Output, one_line},
    service::{Client, Target, UserRequests},
    serving::Serving,
};
use anyhow::Context;
use crawlway_demo_web::Web;
use crawlway_gateway::dto::UserRequest;
use serde::Serialize;
use serde_json::Value;
use std::io;
use url::Url;

/// Host and path of the URL.
const PAGE: (&str, &str) = ("shop.localhost", "/");

/// URL and its answered request.
#[derive(Debug, Serialize)]
pub(super) struct RequestExample {
    command: String,
    request: UserRequest,
}

/// Requests the URL and waits for the answer.
pub(super) async fn run(
    serving: &Serving,
    config: &Config,
    web: &Web,
    shell: &Shell,
) -> anyhow::Result<RequestExample> {
    let (host, path) = PAGE;
    let client = Client::new(Url::parse(&serving.url())?, &config.gateway)?;
    let requests = UserRequests::open(Target::Remote(client), None, true).await?;
    let accepted = requests.add(&[format!("http://{host}:{}{path}", web.port())], None).await?;
    let accepted = accepted.first().context("one request was accepted")?;
    let request = requests.wait_for(&accepted.id).await?.context("the request is gone")?;
    Ok(RequestExample { command: shell.line(&["request", "get", &accepted.id]), request })
}

impl RequestExample {
    /// Prints the answer for people.
    pub(super) fn print(&self, output: &mut Output) -> io::Result<()> {
        output.heading("Request: a user requests a URL, a worker answers")?;
        output.line(&format!("$ {}", self.command))?;
        let UserRequest { email, status, result, .. } = &self.request;
        let result = result.as_ref().and_then(|result| serde_json::from_str::<Value>(result.get()).ok());
        let result = result.unwrap_or_default();
        let title = result["title"].as_str().unwrap_or_default();
        let links =
            crate::command::counted(result["links"].as_array().map_or(0, Vec::len) as u64, "link", "links");
        for (name, value) in [
            ("status", format!("{status}, for {email}")),
            ("title", title.to_owned()),
            ("result", format!("HTTP {}, {links}", result["statusCode"])),
        ] {
            output.line(&format!("  {name:8} {}", one_line(&value)))?;
        }
        Ok(())
    }
}
