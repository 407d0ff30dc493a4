//! Topic patterns: dot-separated words, `*` for exactly one word, `#` for any number of words.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Pattern of a topic binding.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicPattern(String);

/// Error for an invalid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "topic pattern `{pattern}` {problem}; write words separated by dots, `*` for one word, `#` for any number"
)]
pub struct PatternError {
    pattern: String,
    problem: &'static str,
}

/// AMQP's maximum length of a routing key, in bytes.
const MAX_BYTES: usize = 255;

impl TopicPattern {
    /// Validates a pattern.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let problem = if pattern.is_empty() {
            "is empty"
        } else if pattern.len() > MAX_BYTES {
            "is longer than 255 bytes"
        } else if pattern.split('.').any(str::is_empty) {
            "has an empty word"
        } else if pattern.split('.').any(|word| word.len() > 1 && word.contains(['*', '#'])) {
            "has a wildcard inside a word"
        } else if pattern.chars().any(|c| c.is_whitespace() || c.is_control()) {
            "has white space or a control character"
        } else {
            return Ok(Self(pattern.to_owned()));
        };
        Err(PatternError { pattern: pattern.chars().take(MAX_BYTES).collect(), problem })
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a message with this topic is routed to the bound queue.
    pub fn matches(&self, topic: &str) -> bool {
        let pattern: Vec<&str> = self.0.split('.').collect();
        let words: Vec<&str> = topic.split('.').collect();
        // Dynamic programming over the words, so that many `#` stay polynomial:
        // `reach[i]` tells whether the pattern so far can consume the first i words.
        let mut reach = vec![false; words.len() + 1];
        reach[0] = true;
        for part in pattern {
            let mut next = vec![false; words.len() + 1];
            if part == "#" {
                let mut any = false;
                for (now, next) in reach.iter().zip(&mut next) {
                    any |= now;
                    *next = any;
                }
            } else {
                for (i, word) in words.iter().enumerate() {
                    next[i + 1] = reach[i] && (part == "*" || part == *word);
                }
            }
            reach = next;
        }
        reach[words.len()]
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TopicPattern {
    type Error = PatternError;
    fn try_from(pattern: String) -> Result<Self, PatternError> {
        Self::new(&pattern)
    }
}

impl From<TopicPattern> for String {
    fn from(pattern: TopicPattern) -> String {
        pattern.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recursive reference implementation, exponential.
    fn matches_recursively(pattern: &[&str], words: &[&str]) -> bool {
        match (pattern.first(), words.first()) {
            (None, None) => true,
            (Some(&"#"), _) => {
                matches_recursively(&pattern[1..], words)
                    || (!words.is_empty() && matches_recursively(pattern, &words[1..]))
            }
            (Some(&"*"), Some(_)) => matches_recursively(&pattern[1..], &words[1..]),
            (Some(p), Some(w)) if p == w => matches_recursively(&pattern[1..], &words[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_reference(
            pattern in prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*"), Just("#")], 1..6),
            words in prop::collection::vec(prop_oneof![Just("a"), Just("b")], 1..6),
        ) {
            let compiled = TopicPattern::new(&pattern.join(".")).unwrap();
            prop_assert_eq!(compiled.matches(&words.join(".")), matches_recursively(&pattern, &words));
        }
    }

    #[test]
    fn many_hashes_stay_cheap() {
        let pattern = TopicPattern::new(&vec!["#"; 100].join(".")).unwrap();
        assert!(pattern.matches(&vec!["w"; 120].join(".")));
    }

    #[test]
    fn an_error_quotes_the_invalid_pattern() {
        for (bad, part) in [
            ("", "empty"),
            ("a..b", "empty word"),
            ("a.b*", "inside a word"),
            ("##", "inside a word"),
            ("a b", "white space"),
        ] {
            let text = TopicPattern::new(bad).unwrap_err().to_string();
            assert!(text.contains(part), "{bad}: {text}");
        }
    }
}
