//! The site that is crawled, served on loopback by a process of its own, so that its time and memory are not ours.

use anyhow::{Context, bail};
use clap::ValueEnum;
use crawlway_bench::measured;
use crawlway_demo_web::{Plan, Web};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// What the site is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Pages of about 11 KB with 20 links each.
    Pages,
    /// Pages of some 300 bytes with up to 6 links each.
    Tiny,
}

/// A site that is being served, until this is dropped.
#[derive(Debug)]
pub(crate) struct Site {
    server: Child,
    /// Where a crawl begins.
    pub(crate) start: String,
    pub(crate) kind: Kind,
    pub(crate) pages: usize,
}

impl Site {
    /// Starts this very program again as the server.
    pub(crate) fn start(kind: Kind, pages: usize) -> anyhow::Result<Self> {
        let name = kind.to_possible_value().context("a kind of site without a name")?;
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
            bail!("the server did not start; it said why above");
        }
        Ok(site)
    }

    /// The host and the port, as URLs have them.
    pub(crate) fn address(&self) -> &str {
        self.start.trim_start_matches("http://").trim_end_matches('/')
    }

    /// The URL of a page by its number.
    pub(crate) fn url(&self, page: usize) -> String {
        match (self.kind, page) {
            (_, 0) => self.start.clone(),
            (Kind::Pages, page) => format!("{}page/{page}", self.start),
            (Kind::Tiny, page) => format!("{}{page}", self.start),
        }
    }

    /// A query that finds every page.
    pub(crate) fn query_for_all(&self) -> &'static str {
        match self.kind {
            Kind::Pages => "benchmark",
            Kind::Tiny => "title:tiny",
        }
    }

    /// A query that finds one page before all others.
    pub(crate) fn query_for(&self, page: usize) -> String {
        match self.kind {
            Kind::Pages => format!("zq{page:05}x"),
            Kind::Tiny => format!("title:\"tiny page {page}\""),
        }
    }

    /// What the server has computed so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        measured::cpu_of(self.server.id())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It ends when nobody holds the other end any more, also if this process is killed.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// The server's side: says where the crawl begins, and serves until standard input ends.
pub(crate) fn serve(kind: Kind, pages: usize) -> anyhow::Result<()> {
    let plan = match kind {
        Kind::Pages => Plan::bench(pages),
        Kind::Tiny => Plan::tiny(pages),
    };
    // One thread, so that it gets no more of the machine than it needs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Web::builder(plan).without_log().serve().await?;
        let start = server.web().truth().start.first().context("a site without a start")?.clone();
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{start}")?;
        stdout.flush()?;
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        Ok(())
    })
}
