//! Names of queues and message groups in SQS.
//!
//! | contract | SQS |
//! |---|---|
//! | `X.fifo` | the same |
//! | `a_b-c` | `a_b-c.fifo` |
//! | with a dot, or too long | dots as `-`, cut, with a digest: `a-b-1f0c33d2.fifo` |
//!
//! The dead queue has `-dead` before `.fifo`.

use crawlway_broker::QueueName;
use sha2::{Digest as _, Sha256};

/// Longest name without `-dead.fifo`.
const MAX_STEM: usize = 80 - DEAD_SUFFIX.len() - FIFO_SUFFIX.len();
const MAX_GROUP: usize = 128;
const FIFO_SUFFIX: &str = ".fifo";
const DEAD_SUFFIX: &str = "-dead";

/// Names of a queue and of its dead queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) main: String,
    pub(crate) dead: String,
}

impl Names {
    pub(crate) fn new(queue: &QueueName) -> Self {
        let name = queue.as_str();
        let stem = name.strip_suffix(FIFO_SUFFIX).unwrap_or(name);
        let stem = if stem.len() > MAX_STEM || stem.contains('.') || stem.ends_with(DEAD_SUFFIX) {
            let plain: String = stem.replace('.', "-").chars().take(MAX_STEM - 9).collect();
            format!("{plain}-{}", &digest(name)[..8])
        } else {
            stem.to_owned()
        };
        Self { main: format!("{stem}{FIFO_SUFFIX}"), dead: format!("{stem}{DEAD_SUFFIX}{FIFO_SUFFIX}") }
    }
}

/// Message group of a contract's group.
pub(crate) fn group(group: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_punctuation();
    if group.len() <= MAX_GROUP && !group.starts_with('~') && group.chars().all(is_allowed) {
        return group.to_owned();
    }
    format!("~{}", digest(group))
}

/// Hexadecimal digest of a text, 64 characters.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_do_not_collide() {
        let long = "x".repeat(200);
        let names = ["jobs", "CrawlerQueue.fifo", "a.b", "a-b", "jobs-dead", "a_b", long.as_str()];
        let mut used: Vec<String> = Vec::new();
        for name in names {
            let Names { main, dead } = Names::new(&QueueName::new(name).unwrap());
            assert!(main.len() <= 80 && dead.len() <= 80 && main.ends_with(".fifo"), "{main} {dead}");
            used.extend([main, dead]);
        }
        assert_eq!(
            &used[..4],
            ["jobs.fifo", "jobs-dead.fifo", "CrawlerQueue.fifo", "CrawlerQueue-dead.fifo"]
        );
        used.sort();
        let count = used.len();
        used.dedup();
        assert_eq!(used.len(), count, "{used:?}");
    }

    #[test]
    fn groups_are_kept_or_digested() {
        assert_eq!(group("example.org"), "example.org");
        for other in ["a b", "é", "~a", &"x".repeat(129)] {
            assert!(group(other).starts_with('~') && group(other).len() == 65, "{other}");
        }
    }
}
