//! Names of queues and exchanges, restricted to what every broker accepts.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Error for an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} name `{name}` {problem}; use 1 to {max} letters, digits, `.`, `_` or `-`", max = MAX_NAME)]
pub struct NameError {
    what: &'static str,
    name: String,
    problem: &'static str,
}

/// Maximum length in bytes: AMQP's 255 less the suffixes that backends append (`.dead`, `:wait:4096000`, `:alone:…`).
const MAX_NAME: usize = 200;
/// Maximum number of suggestions in an error.
const MAX_SUGGESTIONS: usize = 5;

fn check(what: &'static str, name: &str) -> Result<(), NameError> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME {
        "is too long"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        "has a character that not every broker can carry"
    } else if name.starts_with('.') || name.ends_with('.') {
        "starts or ends with a dot"
    } else if name.ends_with(".dead") {
        "ends with `.dead`, which is kept for dead letters"
    } else {
        return Ok(());
    };
    Err(NameError { what, name: name.chars().take(MAX_NAME).collect(), problem })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Validates a name.
            pub fn new(name: &str) -> Result<Self, NameError> {
                check($what, name)?;
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(&name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.to_string()
            }
        }
    };
}

name! {
    /// Name of a queue, cheap to clone.
    QueueName, "queue"
}

impl QueueName {
    /// Most similar names, nearest first: suggestions for a misspelled name.
    pub fn nearest<'a>(&self, names: impl IntoIterator<Item = &'a QueueName>) -> Vec<QueueName> {
        let mut names: Vec<(usize, &QueueName)> = names
            .into_iter()
            .map(|name| (strsim::damerau_levenshtein(self.as_str(), name.as_str()), name))
            .collect();
        names.sort();
        names.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.clone()).collect()
    }
}

name! {
    /// Name of a topic exchange, cheap to clone.
    ExchangeName, "exchange"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_flows_are_valid() {
        for name in
            ["crawler_queue", "crawl-requests", "scraped.kijiji", "CrawlerQueue.fifo", "url_inventory"]
        {
            QueueName::new(name).unwrap();
        }
    }

    #[test]
    fn the_nearest_name_comes_first() {
        let names =
            ["url_inventory", "crawler_queue", "crawl-requests"].map(|name| QueueName::new(name).unwrap());
        let nearest = QueueName::new("craler_queue").unwrap().nearest(&names);
        assert_eq!(nearest[0].as_str(), "crawler_queue");
    }

    #[test]
    fn an_error_quotes_the_invalid_name() {
        let text = QueueName::new("my queue").unwrap_err().to_string();
        assert!(text.contains("`my queue`") && text.contains("letters, digits"), "{text}");
        for bad in ["", ".a", "a.", "a/b", "é", "jobs.dead", &"x".repeat(201)] {
            QueueName::new(bad).unwrap_err();
        }
    }
}
