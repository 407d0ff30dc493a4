//! The embedded column of `docs/guarantees.md`.

use crawlway_broker::{Aspect, Guarantees, Support};
use std::time::Duration;

/// What the embedded queue holds: everything, by its own means.
pub(crate) fn guarantees(max_message: u64) -> Guarantees {
    fn support(_: Aspect) -> Support {
        Support::Native
    }
    Guarantees {
        broker: "embedded",
        support,
        late_by: Duration::from_millis(50),
        depth_lag: Duration::ZERO,
        limit_slack: 0,
        max_message,
        uncounted_losses: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table in the document: the aspect and the embedded cell's first word.
    fn rows() -> Vec<(String, String)> {
        let document = include_str!("../../../docs/guarantees.md");
        let table = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| aspect"));
        table
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                assert_eq!(cells.len(), 7, "an aspect and four brokers: {line}");
                let word = cells[2].trim_start_matches("**").split("**").next().unwrap_or_default();
                (cells[1].to_owned(), word.to_owned())
            })
            .collect()
    }

    #[test]
    fn the_document_says_what_the_code_says() {
        let guarantees = guarantees(1);
        let said: Vec<(String, String)> = Aspect::ALL
            .iter()
            .map(|aspect| {
                let word = match guarantees.of(*aspect) {
                    Support::Native => "native",
                    Support::Emulated { .. } => "emulated",
                    Support::Refused { .. } => "refused",
                };
                (aspect.to_string(), word.to_owned())
            })
            .collect();
        assert_eq!(rows(), said);
    }
}
