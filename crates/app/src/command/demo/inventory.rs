//! Example of the flow `inventory`: a URL posted to the gateway, fetched by the worker, and its record read back.

use crate::{
    flows::{DemoContext, DemoResult, FlowDemo},
    service::{self, Target},
};
use anyhow::bail;
use crawlway_store::inventory::RecordStatus;
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Host and path of the URL: a page that sets a cookie.
const PAGE: (&str, &str) = ("shop.localhost", "/");

/// Time that the fetch may take.
const RECORD_TIMEOUT: Duration = Duration::from_secs(20);

/// URL and its record.
pub(crate) struct InventoryDemo;

impl FlowDemo for InventoryDemo {
    fn field(&self) -> &'static str {
        "inventory"
    }

    fn run<'a>(&'a self, context: &'a DemoContext<'a>) -> BoxFuture<'a, anyhow::Result<DemoResult>> {
        run(context).boxed()
    }
}

/// Posts the URL and reads its record once it is finished.
async fn run(context: &DemoContext<'_>) -> anyhow::Result<DemoResult> {
    let DemoContext { client, web, shell } = context;
    let (host, path) = PAGE;
    let url = format!("http://{host}:{}{path}", web.port());
    let gateway = || Target::Remote(client.clone());
    service::UrlSubmitter::open(gateway(), std::iter::empty()).await?.add(&url).await?;
    let began = Instant::now();
    loop {
        let record = service::url(gateway(), &url).await?.unwrap_or_default();
        let status = record["status"].as_str().and_then(RecordStatus::from_name);
        if status.is_some_and(RecordStatus::is_finished) {
            let command = shell.line(&["url", "get", &url]);
            let heading = "Inventory: one URL posted, fetched, and its record read back";
            let lines = lines(&record);
            let json = json!({ "url": url, "command": command, "record": record });
            return Ok(DemoResult { json, heading, command, lines });
        }
        if began.elapsed() > RECORD_TIMEOUT {
            bail!("`{url}` was accepted, but is not fetched after {} s: {record}", RECORD_TIMEOUT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The record for people.
fn lines(record: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let metadata = &record["metadata"];
    let details = &record["additional_details"];
    let status = format!("{}, HTTP {}", text(&record["status"]), text(&details["status_code"]));
    let fields = |title, of: &Value| -> Vec<(&'static str, String)> {
        let none = Map::new();
        let fields = of.as_object().unwrap_or(&none).iter();
        let titles = std::iter::once(title).chain(std::iter::repeat(""));
        titles.zip(fields.map(|(name, value)| format!("{name}: {}", text(value)))).collect()
    };
    let source = metadata["page_source"].as_str().unwrap_or_default();
    let first = source.lines().next().unwrap_or_default();
    let bytes = crate::command::counted(source.len() as u64, "byte", "bytes");
    let mut lines = vec![("status", status)];
    lines.extend(fields("headers", &metadata["headers"]));
    lines.extend(fields("cookies", &metadata["cookies"]));
    lines.push(("source", format!("{first} … ({bytes})")));
    lines
}
