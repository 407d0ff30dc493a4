//! Other crawlers at the same work: the site's pages, title and text, to JSON lines.
//!
//! Each is a small program that is told where to begin, where to write, and how many requests may be in flight.

mod crawlee;
mod scrapy;
mod spider;

use crate::site::Site;
use anyhow::{Context, bail, ensure};
use crawlway_bench::{
    children,
    measured::{self, Spent},
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

/// A crawler that is ready to run.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its name and version.
    pub(crate) name: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Peer {
    /// Has it crawl the whole site, and makes sure that it did.
    pub(crate) fn crawl(&self, site: &Site, place: &Path, limit: Duration) -> anyhow::Result<Spent> {
        fs::create_dir_all(place)?;
        let lines = place.with_extension("jsonl");
        let mut command = children::command(&self.program);
        command.args(&self.arguments).arg(&site.start).arg(&lines).arg(crate::IN_FLIGHT.to_string());
        let spent = measured::run(command.current_dir(place), limit)?;
        check(&lines, site)?;
        Ok(spent)
    }
}

/// Makes a crawler ready in a folder of its own.
type Install = fn(&Path) -> anyhow::Result<Peer>;

/// Installs the crawlers below the target directory, all or only some.
pub(crate) fn install(target: &Path, only: &[String]) -> anyhow::Result<Vec<Peer>> {
    let known: [(&str, Install); 3] =
        [("scrapy", scrapy::install), ("crawlee", crawlee::install), ("spider", spider::install)];
    if let Some(unknown) = only.iter().find(|only| known.iter().all(|(name, _)| name != only)) {
        bail!("there is no peer `{unknown}`; there are scrapy, crawlee and spider");
    }
    let mut peers = Vec::new();
    for (name, install) in known {
        if !only.is_empty() && !only.iter().any(|only| only == name) {
            continue;
        }
        let home = target.join("bench-peers").join(name);
        fs::create_dir_all(&home)?;
        peers.push(install(&home).with_context(|| format!("cannot install {name}"))?);
    }
    Ok(peers)
}

/// A line of what a crawler wrote; whatever else it wrote is its own business.
#[derive(Debug, Deserialize)]
struct Line {
    url: String,
    #[serde(default)]
    title: String,
    text: String,
    /// Where our own lines have the title.
    #[serde(default)]
    metadata: LineMetadata,
}

#[derive(Debug, Default, Deserialize)]
struct LineMetadata {
    title: String,
}

/// Whether every page is there, once, with title and text.
pub(crate) fn check(lines: &Path, site: &Site) -> anyhow::Result<()> {
    let mut urls = HashSet::new();
    for line in BufReader::new(File::open(lines)?).lines() {
        let line: Line = serde_json::from_str(&line?).context("a line is not as expected")?;
        let Line { url, text, .. } = line;
        let title = if line.title.is_empty() { line.metadata.title } else { line.title };
        // What the site says is lower-cased by some and not by others.
        ensure!(title.to_lowercase().contains("benchmark"), "{url} has the title `{title}`");
        ensure!(text.len() > 8_000, "{url} has only {} bytes of text", text.len());
        ensure!(urls.insert(url.clone()), "{url} is there twice");
    }
    ensure!(urls.len() == site.pages, "expected {} pages; there are {}", site.pages, urls.len());
    Ok(())
}

/// Runs a step of an installation.
fn step(command: &mut Command, missing: &str) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run `{name}`; {missing}"))?;
    ensure!(status.success(), "`{name}` ended with {status}");
    Ok(())
}
