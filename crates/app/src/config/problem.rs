//! Problems of settings: source, key, found value and expected value.

use super::{
    layers::{Entry, Origin, variable_of},
    renamed, secret,
    show::{dotted, inline},
};
use serde::Serialize;
use std::{fmt, path::Path};

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) origin: Option<Origin>,
    pub(crate) key: Option<String>,
    pub(crate) text: String,
}

/// All problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    /// Problems sorted by source: without one first, then those of the file by line, then the others.
    pub(super) fn in_order(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| match problem.origin {
            None => (0, 0),
            Some(Origin::File { line, .. }) => (1, line),
            Some(_) => (2, 0),
        });
        Self(problems)
    }
}

impl Problem {
    /// Problem of a value. Of `refusal`, the error of the type or check, the part from `expected` on is kept.
    pub(super) fn wrong_value(entry: &Entry, refusal: &str) -> Self {
        let found = inline(&secret::masked(&entry.key, &entry.value));
        // Message of serde for a value that is no text where one of several names is expected.
        let refusal = refusal.replace("expected string only", "expected a text");
        let expected = refusal.rfind("expected ").map(|at| &refusal[at..]);
        let text = match expected {
            Some(expected) if refusal.starts_with("unknown variant") => {
                format!("found {found}, which is not known; {expected}")
            }
            Some(expected) => format!("found {found}, {expected}"),
            // A message of another form may quote the value.
            None if secret::is_secret(&entry.key) => format!("found {found}, which is not valid"),
            None => format!("found {found}: {refusal}"),
        };
        Self::of_key(entry.origin.clone(), &entry.key, text)
    }

    pub(super) fn unknown_key(origin: Origin, key: &[String], nearest: Option<Vec<String>>) -> Self {
        let named = |key: Vec<String>| match origin {
            Origin::Variable(_) => variable_of(&key),
            _ => dotted(&key),
        };
        let text = match (renamed::new_name(key), nearest, &origin) {
            (Some(new), _, Origin::File { .. }) => {
                format!("renamed to `{}`; `crawlway config migrate` rewrites the file", named(new))
            }
            (Some(new), ..) => format!("renamed to `{}`", named(new)),
            (None, Some(nearest), _) => format!("unknown key; did you mean `{}`?", named(nearest)),
            (None, None, _) => "unknown key; `crawlway config show` lists all known keys".to_owned(),
        };
        Self::of_key(origin, key, text)
    }

    /// A backend that is not compiled in.
    pub(super) fn missing_feature(entry: &Entry, feature: &str) -> Self {
        let found = inline(&entry.value);
        let text = format!(
            "found {found}, which this build leaves out; build with `--features {feature}`, or `--features full` for \
             all backends"
        );
        Self::of_key(entry.origin.clone(), &entry.key, text)
    }

    pub(super) fn not_a_table(origin: Origin, key: &[String], default: &toml::Value) -> Self {
        let example = inline(&secret::masked(key, default));
        Self::of_key(origin, key, format!("found a table, expected a value such as {example}"))
    }

    pub(super) fn table_wanted(origin: Origin, key: &[String]) -> Self {
        let text = match origin {
            Origin::Variable(_) => {
                format!("a table cannot be set by a variable; set its keys, as in `{}__…`", variable_of(key))
            }
            _ => format!("found a value, expected a table `[{}]`", dotted(key)),
        };
        Self::of_key(origin, key, text)
    }

    pub(super) fn not_text(origin: Origin, key: &[String]) -> Self {
        Self::of_key(origin, key, "found bytes that are not UTF-8, expected text".to_owned())
    }

    /// Without the content of the line, which may be a secret.
    pub(super) fn syntax(origin: Origin, message: &str) -> Self {
        Self { origin: Some(origin), key: None, text: format!("not valid TOML: {}", message.trim_end()) }
    }

    pub(super) fn unreadable(path: &Path, error: &str) -> Self {
        Self {
            origin: None,
            key: None,
            text: format!("cannot read config file `{}`: {error}", path.display()),
        }
    }

    pub(crate) fn together(text: String) -> Self {
        Self { origin: None, key: None, text: format!("the settings do not go together: {text}") }
    }

    /// Problem of the settings as a whole, with a complete message.
    pub(crate) fn plain(text: String) -> Self {
        Self { origin: None, key: None, text }
    }

    pub(super) fn of_key(origin: Origin, key: &[String], text: String) -> Self {
        Self { origin: Some(origin), key: Some(dotted(key)), text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        match (&self.key, &self.origin) {
            // The name of the variable already contains the key.
            (Some(_), Some(Origin::Variable(_))) | (None, _) => write!(f, "{}", self.text),
            (Some(key), _) => write!(f, "`{key}`: {}", self.text),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        enum Written<'a> {
            Default,
            File { path: String, line: usize },
            Variable { name: &'a str },
            Flag { name: &'a str },
        }
        match self {
            Origin::Default => Written::Default,
            Origin::File { path, line } => Written::File { path: path.display().to_string(), line: *line },
            Origin::Variable(name) => Written::Variable { name },
            Origin::Flag(name) => Written::Flag { name },
        }
        .serialize(serializer)
    }
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            source: &'a Option<Origin>,
            key: &'a Option<String>,
            problem: &'a str,
        }
        Written { source: &self.origin, key: &self.key, problem: &self.text }.serialize(serializer)
    }
}
