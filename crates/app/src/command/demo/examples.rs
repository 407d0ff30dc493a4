//! What can be asked of the pages that were crawled: three searches, and the trail of one item.

use crate::worker::Worker;
use anyhow::Context;
use crawlway_demo_web::Web;
use crawlway_gateway::shape::{FrontierEntry, ItemTrail, Results, Trails};
use crawlway_store::{PageIndex, pages::Search};
use serde::Serialize;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// How many hits are shown.
const HITS: usize = 2;

/// What is searched for, and what that shows.
const QUERIES: [(&str, &str); 3] = [
    ("night train", "the best pages first, near-duplicates folded"),
    ("\"sourdough starter\" -rye", "a phrase, and without a word"),
    ("土星 OR title:saturn", "in any script, and by title"),
];

/// The page whose trail is shown: it answers 503 with a `Retry-After` at first.
const TRAIL_OF: (&str, &str) = ("old.localhost", "/archive.htm");

/// The last entry of a trail is written after everything else.
const TRAIL_WITHIN: Duration = Duration::from_secs(10);

/// A search and what it finds.
#[derive(Debug, Serialize)]
pub(super) struct Searched {
    pub(super) query: &'static str,
    pub(super) shows: &'static str,
    pub(super) command: String,
    pub(super) results: Results,
}

/// The trail of an item.
#[derive(Debug, Serialize)]
pub(super) struct Followed {
    pub(super) url: String,
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) trails: Trails,
}

/// How other commands ask for what the demo has.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    program: String,
    data: String,
}

impl Shell {
    /// Commands as they can be typed where this program was started.
    pub(super) fn new(data: &Path) -> Self {
        let program = std::env::args_os().next().map(|name| quoted(&name.to_string_lossy()));
        Self {
            program: program.unwrap_or_else(|| "crawlway".to_owned()),
            data: quoted(&data.to_string_lossy()),
        }
    }

    /// A command with these arguments about this data.
    pub(super) fn line(&self, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
        format!("{} {} --data {}", self.program, arguments.join(" "), self.data)
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Makes the searches.
pub(super) async fn searches(index: &dyn PageIndex, shell: &Shell) -> anyhow::Result<Vec<Searched>> {
    let mut searched = Vec::new();
    for (query, shows) in QUERIES {
        let search = Search { limit: HITS, ..Search::new(query) };
        let results = Results::from(index.search(&search).await?);
        let limit = HITS.to_string();
        let command = shell.line(&["search", query, "--limit", &limit]);
        searched.push(Searched { query, shows, command, results });
    }
    Ok(searched)
}

/// Follows the item, once its trail is complete.
pub(super) async fn trail(worker: &Worker, web: &Web, shell: &Shell) -> anyhow::Result<Followed> {
    let (host, path) = TRAIL_OF;
    let url = format!("http://{host}:{}{path}", web.port());
    let began = Instant::now();
    let item = loop {
        let trails = worker.records.trails.of_subject(&url, 1).await?;
        let item = trails.into_iter().next().and_then(ItemTrail::new);
        if item.as_ref().is_some_and(|item| item.closed) || began.elapsed() > TRAIL_WITHIN {
            break item;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let frontier = worker.records.frontier.find(&url).await?.into_iter().map(FrontierEntry::from).collect();
    let item = item.with_context(|| format!("nothing is known of `{url}`"))?;
    let command = shell.line(&["trail", &url]);
    Ok(Followed { url, command, trails: Trails { items: vec![item], frontier } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted("lighthouse"), "lighthouse");
        assert_eq!(quoted("http://a.test:80/x.htm"), "http://a.test:80/x.htm");
        assert_eq!(quoted("\"two words\" -one"), "'\"two words\" -one'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$HOME"), "'$HOME'");
    }
}
