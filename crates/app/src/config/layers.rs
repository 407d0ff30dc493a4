//! Where settings come from: the defaults, a file, variables and flags, each read into a list of values.

use super::{
    problem::{Problem, Problems},
    shape::{Known, Shape},
};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// The file that is read when none is named.
const FILE: &str = "crawlway.toml";
/// The variable that names the file.
const FILE_VARIABLE: &str = "CRAWLWAY_CONFIG";
/// What the variables of all settings start with.
const PREFIX: &str = "CRAWLWAY_";

/// What the settings are read from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// `--config`
    pub(crate) config_flag: Option<PathBuf>,
    /// `--data`
    pub(crate) data_flag: Option<PathBuf>,
    /// `--gateway`
    pub(crate) gateway_flag: Option<String>,
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Whether a `crawlway.toml` in the working directory counts.
    pub(crate) working_directory: bool,
}

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(&'static str),
}

/// One setting and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Vec<String>,
    pub(super) value: toml::Value,
    pub(super) origin: Origin,
}

impl Sources {
    /// Whether somebody said which file to read.
    pub(super) fn names_a_file(&self) -> bool {
        self.config_flag.is_some() || self.variables.iter().any(|(name, _)| name == FILE_VARIABLE)
    }

    /// The file that was named, or the one in the working directory if there is one, with its text.
    pub(crate) fn file(&self, problems: &mut Vec<Problem>) -> Option<(PathBuf, String)> {
        let variable = self.variables.iter().find(|(name, _)| name == FILE_VARIABLE);
        let named = self.config_flag.clone().or_else(|| variable.map(|(_, path)| path.into()));
        let path = match &named {
            Some(path) => path.clone(),
            None if self.working_directory => FILE.into(),
            None => return None,
        };
        match fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let by = match (&self.config_flag, named) {
                    (Some(_), _) => " (named by --config)".to_owned(),
                    (None, Some(_)) => format!(" (named by {FILE_VARIABLE})"),
                    (None, None) => String::new(),
                };
                problems.push(Problem::unreadable(&path, &format!("{error}{by}")));
                None
            }
        }
    }
}

/// The defaults, in the order of their file.
pub(super) fn defaults(text: &str) -> Result<Vec<Entry>, Problems> {
    let broken = |error: &toml::de::Error| Problems(vec![Problem::together(error.to_string())]);
    let table = DeTable::parse(text).map_err(|error| broken(&error))?;
    let entry = |FoundValue { path, value, .. }| Entry { key: path, value, origin: Origin::Default };
    Ok(flatten(table.get_ref(), |_| true).into_iter().map(entry).collect())
}

pub(super) fn from_file(
    path: &Path,
    text: &str,
    shape: &Shape<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Entry> {
    let origin_at = |offset: usize| Origin::File { path: path.to_owned(), line: line_of(text, offset) };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let offset = error.span().map_or(0, |span| span.start);
            let problem = Problem::syntax(origin_at(offset), error.message());
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        return Vec::new();
    }
    let known = |FoundKey { path, offset, is_table }: FoundKey<'_>| {
        let problem = match (shape.at(path), is_table) {
            (Known::Table, true) | (Known::Setting(_), false) => return true,
            (Known::Unknown, _) => Problem::unknown_key(origin_at(offset), path, shape.nearest(path)),
            (Known::Setting(default), true) => Problem::not_a_table(origin_at(offset), path, default),
            (Known::Table, false) => Problem::table_wanted(origin_at(offset), path),
        };
        problems.push(problem);
        false
    };
    let entry = |FoundValue { path, offset, value }| Entry { key: path, value, origin: origin_at(offset) };
    flatten(table.get_ref(), known).into_iter().map(entry).collect()
}

pub(super) fn from_variables(
    sources: &Sources,
    shape: &Shape<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Entry> {
    let mut variables: Vec<(&str, &OsString)> = sources
        .variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX) && *name != FILE_VARIABLE)
        .collect();
    variables.sort();
    let mut entries = foreign_variables(sources);
    for (name, value) in variables {
        let origin = Origin::Variable(name.to_owned());
        let key: Vec<String> =
            name[PREFIX.len()..].split("__").map(|part| part.to_ascii_lowercase()).collect();
        // One spelling only, so that no two variables can mean one setting.
        if name != name.to_ascii_uppercase() && shape.at(&key) != Known::Unknown {
            problems.push(Problem::unknown_key(origin, &key, Some(key.clone())));
            continue;
        }
        match (shape.at(&key), value.to_str()) {
            (Known::Setting(default), Some(text)) => {
                entries.push(Entry { key, value: typed_like(default, text), origin });
            }
            (Known::Setting(_), None) => problems.push(Problem::not_text(origin, &key)),
            (Known::Table, _) => problems.push(Problem::table_wanted(origin, &key)),
            (Known::Unknown, _) => {
                let nearest = nearest_known(shape, &key);
                problems.push(Problem::unknown_key(origin, &key, nearest));
            }
        }
    }
    entries
}

/// Variables that go by the names that others use for them. Our own win.
const FOREIGN: &[(&str, [&str; 3])] = &[
    ("RABBITMQ_USER", ["broker", "rabbitmq", "user"]),
    ("RABBITMQ_PASSWORD", ["broker", "rabbitmq", "password"]),
];

fn foreign_variables(sources: &Sources) -> Vec<Entry> {
    let given = |(name, key): &(&str, [&str; 3])| {
        let (_, value) = sources.variables.iter().find(|(given, _)| given == name)?;
        let key = key.iter().map(|&part| part.to_owned()).collect();
        Some(Entry { key, value: value.to_str()?.into(), origin: Origin::Variable((*name).to_owned()) })
    };
    FOREIGN.iter().filter_map(given).collect()
}

pub(super) fn from_flags(sources: &Sources, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut entries = Vec::new();
    if let Some(path) = &sources.data_flag {
        let (key, origin) = (vec!["data_dir".to_owned()], Origin::Flag("--data"));
        match path.to_str() {
            Some(path) => entries.push(Entry { key, value: path.into(), origin }),
            None => problems.push(Problem::not_text(origin, &key)),
        }
    }
    if let Some(url) = &sources.gateway_flag {
        let key = ["gateway", "url"].map(str::to_owned).to_vec();
        entries.push(Entry { key, value: url.as_str().into(), origin: Origin::Flag("--gateway") });
    }
    entries
}

/// All of the first list, with what the second one says instead or besides.
pub(super) fn merge(base: &[Entry], over: &[Entry]) -> Vec<Entry> {
    let mut merged = base.to_vec();
    for entry in over {
        match merged.iter_mut().find(|old| old.key == entry.key) {
            Some(old) => *old = entry.clone(),
            None => merged.push(entry.clone()),
        }
    }
    merged
}

pub(super) fn as_table(entries: &[Entry]) -> toml::Table {
    let mut root = toml::Table::new();
    for Entry { key, value, .. } in entries {
        let Some((last, parents)) = key.split_last() else { continue };
        let mut table = Some(&mut root);
        for parent in parents {
            let empty = || toml::Value::Table(toml::Table::new());
            table = table.and_then(|table| table.entry(parent.as_str()).or_insert_with(empty).as_table_mut());
        }
        if let Some(table) = table {
            table.insert(last.clone(), value.clone());
        }
    }
    root
}

/// The variable that sets this key.
pub(super) fn variable_of(key: &[String]) -> String {
    format!("{PREFIX}{}", key.join("__").to_ascii_uppercase())
}

/// A key of a document, before anyone knows whether it is one of ours.
struct FoundKey<'a> {
    path: &'a [String],
    /// Where its name starts.
    offset: usize,
    is_table: bool,
}

/// A value of a document.
struct FoundValue {
    path: Vec<String>,
    offset: usize,
    value: toml::Value,
}

/// The values of a document, in its order. `counts` is asked about each key on the way.
fn flatten(document: &DeTable<'_>, mut counts: impl FnMut(FoundKey<'_>) -> bool) -> Vec<FoundValue> {
    let mut found = Vec::new();
    descend(document, &mut Vec::new(), &mut counts, &mut found);
    found.sort_by_key(|value| value.offset);
    found
}

fn descend(
    table: &DeTable<'_>,
    path: &mut Vec<String>,
    counts: &mut impl FnMut(FoundKey<'_>) -> bool,
    found: &mut Vec<FoundValue>,
) {
    for (name, value) in table {
        path.push(name.get_ref().to_string());
        let offset = name.span().start;
        if counts(FoundKey { path, offset, is_table: value.get_ref().is_table() }) {
            match value.get_ref() {
                DeValue::Table(table) => descend(table, path, counts, found),
                _ => {
                    let read = toml::Value::deserialize(ValueDeserializer::from(value.clone()));
                    // A number too large for TOML is no value of any setting, and is told as what it is not.
                    let value = read.unwrap_or_else(|_| match value.get_ref() {
                        DeValue::Integer(number) => number.as_str().into(),
                        _ => "a value that cannot be read".into(),
                    });
                    found.push(FoundValue { path: path.clone(), offset, value });
                }
            }
        }
        path.pop();
    }
}

/// A variable is text; what the default is decides what the text means.
fn typed_like(default: &toml::Value, text: &str) -> toml::Value {
    let read = match default {
        toml::Value::Integer(_) => text.trim().parse().ok().map(toml::Value::Integer),
        toml::Value::Float(_) => text.trim().parse().ok().map(toml::Value::Float),
        toml::Value::Boolean(_) => text.trim().parse().ok().map(toml::Value::Boolean),
        toml::Value::Array(_) => Some(list(text)),
        _ => None,
    };
    read.unwrap_or_else(|| text.into())
}

/// A list as in the file, `["a", "b"]`, or its entries with commas between them, `a, b`. Nothing is an empty list. An entry
/// that has a comma in it needs the form of the file.
fn list(text: &str) -> toml::Value {
    let text = text.trim();
    if let Some(list) = text.parse().ok().filter(toml::Value::is_array) {
        return list;
    }
    // Meant as in the file, and not right; what was expected is said where it is used.
    if text.starts_with('[') && text.ends_with(']') {
        return text.into();
    }
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    toml::Value::Array(entries.map(toml::Value::from).collect())
}

/// As the shape's, for keys of which a parent may be unknown too.
fn nearest_known(shape: &Shape<'_>, key: &[String]) -> Option<Vec<String>> {
    let known = (1..=key.len()).find(|length| shape.at(&key[..*length]) == Known::Unknown)?;
    let corrected = shape.nearest(&key[..known])?;
    let whole = [corrected.as_slice(), &key[known..]].concat();
    match shape.at(&whole) {
        Known::Setting(_) => Some(whole),
        Known::Table => None,
        Known::Unknown => nearest_known(shape, &whole).filter(|_| known < key.len()),
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
