//! Site under crawl, served on loopback by its own process, so that its CPU time and memory are not counted.

use anyhow::{Context, bail};
use clap::ValueEnum;
use crawlway_bench::measure;
use crawlway_demo_web::{Plan, Web};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Kind of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Pages of about 11 KB with 20 links each.
    Pages,
    /// Pages of some 300 bytes with up to 6 links each.
    Tiny,
}

/// Site server, stopped on drop.
#[derive(Debug)]
pub(crate) struct Site {
    server: Child,
    /// Start URL.
    pub(crate) start: String,
    pub(crate) kind: Kind,
    pub(crate) pages: usize,
}

impl Site {
    /// Starts this program again as the server.
    pub(crate) fn start(kind: Kind, pages: usize) -> anyhow::Result<Self> {
        let name = kind.to_possible_value().context("a kind without a name")?;
        let mut server = Command::new(std::env::current_exe()?)
            .args(["--serve", name.get_name(), "--pages", &pages.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut start = String::new();
        if let Some(stdout) = server.stdout.take() {
            BufReader::new(stdout).read_line(&mut start)?;
        }
        let site = Self { server, start: start.trim_end().to_owned(), kind, pages };
        if site.start.is_empty() {
            bail!("the server did not start; see above");
        }
        Ok(site)
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.start.trim_start_matches("http://").trim_end_matches('/')
    }

    /// URL of a page.
    pub(crate) fn url(&self, page: usize) -> String {
        match (self.kind, page) {
            (_, 0) => self.start.clone(),
            (Kind::Pages, page) => format!("{}page/{page}", self.start),
            (Kind::Tiny, page) => format!("{}{page}", self.start),
        }
    }

    /// Query that matches every page.
    pub(crate) fn query_for_all(&self) -> &'static str {
        match self.kind {
            Kind::Pages => "benchmark",
            Kind::Tiny => "title:tiny",
        }
    }

    /// Query with this page as its first hit.
    pub(crate) fn query_for(&self, page: usize) -> String {
        match self.kind {
            Kind::Pages => format!("zq{page:05}x"),
            Kind::Tiny => format!("title:\"tiny page {page}\""),
        }
    }

    /// CPU time of the server so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        measure::cpu_of(self.server.id())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The server ends when its standard input closes, also if this process is killed.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// Server: prints the start URL, and serves until standard input ends.
pub(crate) fn serve(kind: Kind, pages: usize) -> anyhow::Result<()> {
    let plan = match kind {
        Kind::Pages => Plan::bench(pages),
        Kind::Tiny => Plan::tiny(pages),
    };
    // One thread, to leave the other cores to the crawler.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Web::builder(plan).without_log().serve().await?;
        let start = server.web().ground_truth().start.first().context("a site without a start")?.clone();
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{start}")?;
        stdout.flush()?;
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        Ok(())
    })
}
