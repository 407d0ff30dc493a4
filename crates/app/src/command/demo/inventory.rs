//! Example of the flow `inventory`: a URL posted to the gateway, fetched by the worker, and its record read back.

use super::examples::Shell;
use crate::{
    config::Config,
    output::{Output, one_line},
    service::{self, Client, Target},
    serving::Serving,
};
use anyhow::bail;
use crawlway_demo_web::Web;
use crawlway_flow::Shutdown;
use crawlway_store::inventory::RecordStatus;
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    io,
    time::{Duration, Instant},
};
use url::Url;

/// Host and path of the URL: a page that sets a cookie.
const PAGE: (&str, &str) = ("shop.localhost", "/");

/// Time that the fetch may take.
const RECORD_TIMEOUT: Duration = Duration::from_secs(20);

/// URL and its record.
#[derive(Debug, Serialize)]
pub(super) struct InventoryExample {
    url: String,
    command: String,
    record: Value,
}

/// Posts the URL and reads its record once it is finished; none if a stop was requested meanwhile.
pub(super) async fn run(
    serving: &Serving,
    config: &Config,
    web: &Web,
    shell: &Shell,
    stop: &Shutdown,
) -> anyhow::Result<Option<InventoryExample>> {
    let (host, path) = PAGE;
    let url = format!("http://{host}:{}{path}", web.port());
    let client = Client::new(Url::parse(&serving.url())?, &config.gateway)?;
    let gateway = || Target::Remote(client.clone());
    service::UrlSubmitter::open(gateway(), std::iter::empty()).await?.add(&url).await?;
    let began = Instant::now();
    loop {
        if stop.is_requested() {
            return Ok(None);
        }
        let record = service::url(gateway(), &url).await?.unwrap_or_default();
        let status = record["status"].as_str().and_then(RecordStatus::from_name);
        if status.is_some_and(RecordStatus::is_finished) {
            let command = shell.line(&["url", "get", &url]);
            return Ok(Some(InventoryExample { url, command, record }));
        }
        if began.elapsed() > RECORD_TIMEOUT {
            bail!("`{url}` was accepted, but is not fetched after {} s: {record}", RECORD_TIMEOUT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl InventoryExample {
    /// Prints the record for people.
    pub(super) fn print(&self, output: &mut Output) -> io::Result<()> {
        output.heading("Inventory: one URL posted, fetched, and its record read back")?;
        output.line(&format!("$ {}", self.command))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let metadata = &self.record["metadata"];
        let details = &self.record["additional_details"];
        let status = format!("{}, HTTP {}", text(&self.record["status"]), text(&details["status_code"]));
        let fields = |of: &Value| -> Vec<String> {
            let none = Map::new();
            let fields = of.as_object().unwrap_or(&none);
            fields.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect()
        };
        let source = metadata["page_source"].as_str().unwrap_or_default();
        let first = source.lines().next().unwrap_or_default();
        let bytes = crate::command::counted(source.len() as u64, "byte", "bytes");
        for (title, lines) in [
            ("status", vec![status]),
            ("headers", fields(&metadata["headers"])),
            ("cookies", fields(&metadata["cookies"])),
            ("source", vec![format!("{first} … ({bytes})")]),
        ] {
            for (number, line) in lines.iter().enumerate() {
                let title = if number == 0 { title } else { "" };
                output.line(&format!("  {title:8} {}", one_line(line)))?;
            }
        }
        Ok(())
    }
}
