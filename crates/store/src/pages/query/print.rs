//! Query as text, which parses to the same query.

use super::Query;
use std::fmt;

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Phrase(phrase) => write!(f, "\"{phrase}\""),
            Self::TitleWord(word) => write!(f, "title:{word}"),
            Self::TitlePhrase(phrase) => write!(f, "title:\"{phrase}\""),
            // A host has no spaces, but may have quotes and parentheses.
            Self::Host(host) if host.contains(['"', '(', ')']) => write!(f, "host:\"{host}\""),
            Self::Host(host) => write!(f, "host:{host}"),
            Self::Crawled { from, to } => {
                f.write_str("date:")?;
                if let Some(day) = from {
                    write!(f, "{day}")?;
                }
                f.write_str("..")?;
                if let Some(day) = to {
                    write!(f, "{day}")?;
                }
                Ok(())
            }
            Self::All(parts) => joined(f, parts, " "),
            Self::Any(parts) => joined(f, parts, " OR "),
            Self::Not(inner) => {
                f.write_str("NOT ")?;
                grouped(f, inner)
            }
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Query], between: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(between)?;
        }
        grouped(f, part)?;
    }
    Ok(())
}

fn grouped(f: &mut fmt::Formatter<'_>, part: &Query) -> fmt::Result {
    match part {
        Query::All(_) | Query::Any(_) => write!(f, "({part})"),
        _ => write!(f, "{part}"),
    }
}
