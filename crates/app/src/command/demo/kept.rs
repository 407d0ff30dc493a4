//! One URL kept whole: posted to the gateway, fetched by the worker of the flow `inventory`, and read back.

use super::examples::Shell;
use crate::{
    ask::{self, Client, Place},
    config::Config,
    output::{Output, one_line},
    serving::Serving,
};
use anyhow::bail;
use crawlway_demo_web::Web;
use crawlway_flow::Stop;
use crawlway_store::inventory::Status;
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    io,
    time::{Duration, Instant},
};
use url::Url;

/// The page that is asked for: it sets a cookie.
const PAGE: (&str, &str) = ("shop.localhost", "/");

/// It takes as long as a fetch.
const WITHIN: Duration = Duration::from_secs(20);

/// A URL and what was kept of it.
#[derive(Debug, Serialize)]
pub(super) struct KeptUrl {
    pub(super) url: String,
    pub(super) command: String,
    pub(super) record: Value,
}

/// Posts the URL and reads its record back once it is finished; none if it was asked to end meanwhile.
pub(super) async fn keep(
    serving: &Serving,
    config: &Config,
    web: &Web,
    shell: &Shell,
    stop: &Stop,
) -> anyhow::Result<Option<KeptUrl>> {
    let (host, path) = PAGE;
    let url = format!("http://{host}:{}{path}", web.port());
    let client = Client::new(Url::parse(&serving.url())?, &config.gateway);
    let gateway = || Place::Gateway(client.clone());
    ask::Adding::open(gateway(), std::iter::empty()).await?.add(&url).await?;
    let began = Instant::now();
    loop {
        if stop.is_requested() {
            return Ok(None);
        }
        let record = ask::url(gateway(), &url).await?.unwrap_or_default();
        let status = record["status"].as_str().and_then(Status::from_word);
        if status.is_some_and(Status::is_finished) {
            let command = shell.line(&["url", "get", &url]);
            return Ok(Some(KeptUrl { url, command, record }));
        }
        if began.elapsed() > WITHIN {
            bail!("`{url}` was accepted and is not finished after {} s: {record}", WITHIN.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl KeptUrl {
    /// Whether it is there with what the page has.
    pub(super) fn is_whole(&self) -> bool {
        let metadata = &self.record["metadata"];
        self.record["status"] == Status::Completed.as_str()
            && metadata["cookies"]["basket"]["value"] == "empty"
            && metadata["headers"]["content-type"].is_string()
            && metadata["page_source"].as_str().is_some_and(|source| source.contains("</html>"))
    }

    /// Says it to people.
    pub(super) fn tell(&self, output: &mut Output) -> io::Result<()> {
        output.heading("One URL kept whole: posted, fetched and read back")?;
        output.line(&format!("$ {}", self.command))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let metadata = &self.record["metadata"];
        let details = &self.record["additional_details"];
        let status = format!("{}, answered {}", text(&self.record["status"]), text(&details["status_code"]));
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
