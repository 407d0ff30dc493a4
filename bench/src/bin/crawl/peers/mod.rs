//! Other crawlers: title and text of all pages to JSON lines.
//!
//! Each is a small program with the arguments start URL, output file and concurrency.

mod crawlee;
mod scrapy;
mod spider;

use crate::site::Site;
use anyhow::{Context, ensure};
use crawlway_bench::{
    child_process,
    measure::{self, Usage},
};
use serde::Deserialize;
use std::{
    collections::HashSet,
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
    time::Duration,
};

/// Installed crawler.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Name and version.
    pub(crate) name: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Peer {
    /// Crawls the whole site, and checks the result.
    pub(crate) fn crawl(&self, site: &Site, place: &Path, limit: Duration) -> anyhow::Result<Usage> {
        fs::create_dir_all(place)?;
        let lines = place.with_extension("jsonl");
        let mut command = child_process::command(&self.program);
        command.args(&self.arguments).arg(&site.start).arg(&lines).arg(crate::IN_FLIGHT.to_string());
        let usage = measure::run(command.current_dir(place), limit)?;
        check(&lines, site)?;
        Ok(usage)
    }
}

/// Installs a crawler in a folder.
type Install = fn(&Path) -> anyhow::Result<Peer>;

/// Installs the crawlers in the target directory.
pub(crate) fn install(target: &Path) -> anyhow::Result<Vec<Peer>> {
    let crawlers: [(&str, Install); 3] =
        [("scrapy", scrapy::install), ("crawlee", crawlee::install), ("spider", spider::install)];
    let install = |(name, install): (&str, Install)| {
        let home = target.join("bench-peers").join(name);
        fs::create_dir_all(&home)?;
        install(&home).with_context(|| format!("installing {name} failed"))
    };
    crawlers.into_iter().map(install).collect()
}

/// Line of the output; further fields are ignored.
#[derive(Debug, Deserialize)]
struct Line {
    url: String,
    #[serde(default)]
    title: String,
    text: String,
    /// Field of `crawlway` that contains the title.
    #[serde(default)]
    metadata: LineMetadata,
}

#[derive(Debug, Default, Deserialize)]
struct LineMetadata {
    title: String,
}

/// Checks that the output has every page once, with title and text.
pub(crate) fn check(lines: &Path, site: &Site) -> anyhow::Result<()> {
    let mut urls = HashSet::new();
    for line in BufReader::new(File::open(lines)?).lines() {
        let line: Line = serde_json::from_str(&line?).context("invalid line")?;
        let Line { url, text, .. } = line;
        let title = if line.title.is_empty() { line.metadata.title } else { line.title };
        // Some crawlers lower-case the text.
        ensure!(title.to_lowercase().contains("benchmark"), "{url} has the title `{title}`");
        ensure!(text.len() > 8_000, "{url} has only {} bytes of text", text.len());
        ensure!(urls.insert(url.clone()), "{url} is there twice");
    }
    ensure!(urls.len() == site.pages, "expected {} pages, got {}", site.pages, urls.len());
    Ok(())
}

/// Runs a step of an installation.
fn step(command: &mut Command, missing: &str) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run `{name}`; {missing}"))?;
    ensure!(status.success(), "`{name}` ended with {status}");
    Ok(())
}
