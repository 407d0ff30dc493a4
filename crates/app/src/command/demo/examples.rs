//! Examples of what can be done with the crawled pages: three searches, and the trail of one item.

use crate::{output::shell_word, worker::Worker};
use anyhow::Context;
use crawlway_demo_web::Web;
use crawlway_gateway::dto::{FrontierEntry, ItemTrail, Results, Trails};
use crawlway_store::{PageIndex, pages::SearchRequest};
use serde::Serialize;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Number of hits shown for each search.
const MAX_HITS: usize = 2;

/// Queries, and the feature that each one shows.
const QUERIES: [(&str, &str); 3] = [
    ("night train", "ranking, with near-duplicates folded"),
    ("\"sourdough starter\" -rye", "a phrase, and an excluded word"),
    ("土星 OR title:saturn", "any script, and a field"),
];

/// Host and path of the page whose trail is shown: its first response is 503 with a `Retry-After`.
const TRAIL_PAGE: (&str, &str) = ("old.localhost", "/archive.htm");

/// Time until the trail is complete: its last entry is written after the page is indexed.
const TRAIL_TIMEOUT: Duration = Duration::from_secs(10);

/// Search and its results.
#[derive(Debug, Serialize)]
pub(super) struct SearchExample {
    pub(super) query: &'static str,
    pub(super) shows: &'static str,
    pub(super) command: String,
    pub(super) results: Results,
}

/// Trail of an item.
#[derive(Debug, Serialize)]
pub(super) struct TrailExample {
    pub(super) url: String,
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) trails: Trails,
}

/// Command lines for the demo's data directory.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    program: String,
    data: String,
}

impl Shell {
    /// Command lines that start the program by the name that the user gave it.
    pub(crate) fn new(data: &Path) -> Self {
        let program = std::env::args_os().next().map(|name| shell_word(&name.to_string_lossy()));
        Self {
            program: program.unwrap_or_else(|| "crawlway".to_owned()),
            data: shell_word(&data.to_string_lossy()),
        }
    }

    /// Command line with these arguments and `--data`.
    pub(crate) fn line(&self, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|argument| shell_word(argument)).collect();
        format!("{} {} --data {}", self.program, arguments.join(" "), self.data)
    }
}

/// Runs the searches.
pub(super) async fn searches(index: &dyn PageIndex, shell: &Shell) -> anyhow::Result<Vec<SearchExample>> {
    let mut examples = Vec::new();
    for (query, shows) in QUERIES {
        let search = SearchRequest { limit: MAX_HITS, ..SearchRequest::new(query) };
        let results = Results::from(index.search(&search).await?);
        let limit = MAX_HITS.to_string();
        let command = shell.line(&["search", query, "--limit", &limit]);
        examples.push(SearchExample { query, shows, command, results });
    }
    Ok(examples)
}

/// Reads the trail of the item once it is complete.
pub(super) async fn trail(worker: &Worker, web: &Web, shell: &Shell) -> anyhow::Result<TrailExample> {
    let (host, path) = TRAIL_PAGE;
    let url = format!("http://{host}:{}{path}", web.port());
    let began = Instant::now();
    let item = loop {
        let trails = worker.stores.trails()?.of_subject(&url, 1).await?;
        let item = trails.into_iter().next().and_then(ItemTrail::new);
        if item.as_ref().is_some_and(|item| item.closed) || began.elapsed() > TRAIL_TIMEOUT {
            break item;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let frontier = worker.stores.frontier()?.find(&url).await?.into_iter().map(FrontierEntry::from).collect();
    let item = item.with_context(|| format!("`{url}` has no trail"))?;
    let command = shell.line(&["trail", &url]);
    Ok(TrailExample { url, command, trails: Trails { items: vec![item], frontier } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_expand_them() {
        assert_eq!(shell_word("lighthouse"), "lighthouse");
        assert_eq!(shell_word("http://a.test:80/x.htm"), "http://a.test:80/x.htm");
        assert_eq!(shell_word("\"two words\" -one"), "'\"two words\" -one'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("$HOME"), "'$HOME'");
    }
}
