//! Sources of settings: defaults, file, environment variables and flags, each read into a list of entries.

use super::{
    brokers,
    problem::{Problem, Problems},
    schema::{KeyKind, Schema},
};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Default settings file, in the working directory.
const FILE: &str = "crawlway.toml";
/// Environment variable with the path of the settings file.
const FILE_VARIABLE: &str = "CRAWLWAY_CONFIG";
/// Prefix of the environment variables of settings.
const PREFIX: &str = "CRAWLWAY_";

/// Sources of settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// `--config`
    pub(crate) config_flag: Option<PathBuf>,
    /// `--data`
    pub(crate) data_flag: Option<PathBuf>,
    /// `--gateway`
    pub(crate) gateway_flag: Option<String>,
    /// Environment variables.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Whether a `crawlway.toml` in the working directory is read.
    pub(crate) working_directory: bool,
}

/// Source of a value.
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
    /// Whether the file is set by a flag or a variable.
    pub(super) fn has_explicit_file(&self) -> bool {
        self.config_flag.is_some() || self.variables.iter().any(|(name, _)| name == FILE_VARIABLE)
    }

    /// Path and text of the explicit file, or of the one in the working directory if it exists.
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

/// Defaults in the order of their file.
pub(super) fn defaults(text: &str) -> Result<Vec<Entry>, Problems> {
    let broken = |error: &toml::de::Error| Problems(vec![Problem::together(error.to_string())]);
    let table = DeTable::parse(text).map_err(|error| broken(&error))?;
    let entry = |DocumentValue { path, value, .. }| Entry { key: path, value, origin: Origin::Default };
    Ok(flatten(table.get_ref(), |_| true).into_iter().map(entry).collect())
}

pub(super) fn from_file(
    path: &Path,
    text: &str,
    schema: &Schema<'_>,
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
    let known = |DocumentKey { path, offset, is_table }: DocumentKey<'_>| {
        let problem = match (schema.at(path), is_table) {
            (KeyKind::Table, true) | (KeyKind::Setting(_), false) => return true,
            (KeyKind::Unknown, _) => Problem::unknown_key(origin_at(offset), path, schema.nearest(path)),
            (KeyKind::Setting(default), true) => Problem::not_a_table(origin_at(offset), path, default),
            (KeyKind::Table, false) => Problem::table_wanted(origin_at(offset), path),
        };
        problems.push(problem);
        false
    };
    let entry = |DocumentValue { path, offset, value }| Entry { key: path, value, origin: origin_at(offset) };
    let mut entries: Vec<Entry> = flatten(table.get_ref(), known).into_iter().map(entry).collect();
    // A named broker without a key has all defaults.
    let named = table.get_ref().get(brokers::TABLE).and_then(|brokers| brokers.get_ref().as_table());
    for spanned in named.into_iter().flat_map(DeTable::keys) {
        let name: &str = spanned.get_ref();
        let key = [brokers::TABLE, name, "kind"].map(str::to_owned).to_vec();
        let has_entry = entries.iter().any(|entry| brokers::name_in(&entry.key) == Some(name));
        if let (false, KeyKind::Setting(default)) = (has_entry, schema.at(&key)) {
            entries.push(Entry { key, value: default.clone(), origin: origin_at(spanned.span().start) });
        }
    }
    entries
}

pub(super) fn from_variables(
    sources: &Sources,
    schema: &Schema<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Entry> {
    let mut variables: Vec<(&str, &OsString)> = sources
        .variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX) && *name != FILE_VARIABLE)
        .collect();
    variables.sort();
    let mut entries = contract_variables(sources);
    for (name, value) in variables {
        let origin = Origin::Variable(name.to_owned());
        let key: Vec<String> =
            name[PREFIX.len()..].split("__").map(|part| part.to_ascii_lowercase()).collect();
        // Upper case only, so that each setting has one variable.
        if name != name.to_ascii_uppercase() && schema.at(&key) != KeyKind::Unknown {
            problems.push(Problem::unknown_key(origin, &key, Some(key.clone())));
            continue;
        }
        match (schema.at(&key), value.to_str()) {
            (KeyKind::Setting(default), Some(text)) => {
                entries.push(Entry { key, value: typed_like(default, text), origin });
            }
            (KeyKind::Setting(_), None) => problems.push(Problem::not_text(origin, &key)),
            (KeyKind::Table, _) => problems.push(Problem::table_wanted(origin, &key)),
            (KeyKind::Unknown, _) => {
                let nearest = nearest_known(schema, &key);
                problems.push(Problem::unknown_key(origin, &key, nearest));
            }
        }
    }
    entries
}

/// Variables of the RabbitMQ contract, which have no prefix. Variables with the prefix win.
const CONTRACT_VARIABLES: &[(&str, [&str; 3])] = &[
    ("RABBITMQ_USER", ["broker", "rabbitmq", "user"]),
    ("RABBITMQ_PASSWORD", ["broker", "rabbitmq", "password"]),
];

fn contract_variables(sources: &Sources) -> Vec<Entry> {
    let given = |(name, key): &(&str, [&str; 3])| {
        let (_, value) = sources.variables.iter().find(|(given, _)| given == name)?;
        let key = key.iter().map(|&part| part.to_owned()).collect();
        Some(Entry { key, value: value.to_str()?.into(), origin: Origin::Variable((*name).to_owned()) })
    };
    CONTRACT_VARIABLES.iter().filter_map(given).collect()
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

/// Entries of `base`, replaced and extended by those of `over`.
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

/// Environment variable of a key.
pub(super) fn variable_of(key: &[String]) -> String {
    format!("{PREFIX}{}", key.join("__").to_ascii_uppercase())
}

/// Key of a TOML document, not yet checked against the schema.
struct DocumentKey<'a> {
    path: &'a [String],
    /// Byte offset of the name.
    offset: usize,
    is_table: bool,
}

/// Value of a TOML document.
struct DocumentValue {
    path: Vec<String>,
    offset: usize,
    value: toml::Value,
}

/// Values of a document in its order. Keys that `accept` rejects are skipped with everything below them.
fn flatten(document: &DeTable<'_>, mut accept: impl FnMut(DocumentKey<'_>) -> bool) -> Vec<DocumentValue> {
    let mut found = Vec::new();
    descend(document, &mut Vec::new(), &mut accept, &mut found);
    found.sort_by_key(|value| value.offset);
    found
}

fn descend(
    table: &DeTable<'_>,
    path: &mut Vec<String>,
    accept: &mut impl FnMut(DocumentKey<'_>) -> bool,
    found: &mut Vec<DocumentValue>,
) {
    for (name, value) in table {
        path.push(name.get_ref().to_string());
        let offset = name.span().start;
        if accept(DocumentKey { path, offset, is_table: value.get_ref().is_table() }) {
            match value.get_ref() {
                DeValue::Table(table) => descend(table, path, accept, found),
                _ => {
                    let read = toml::Value::deserialize(ValueDeserializer::from(value.clone()));
                    // A number too large for TOML is kept as text, so that the error can quote it.
                    let value = read.unwrap_or_else(|_| match value.get_ref() {
                        DeValue::Integer(number) => number.as_str().into(),
                        _ => "a value that cannot be read".into(),
                    });
                    found.push(DocumentValue { path: path.clone(), offset, value });
                }
            }
        }
        path.pop();
    }
}

/// Parses the text of a variable as the type of the default.
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

/// Parses a list: as in TOML, `["a", "b"]`, or separated by commas, `a, b`. An empty text is an empty list. An entry with a
/// comma needs the TOML form.
fn list(text: &str) -> toml::Value {
    let text = text.trim();
    if let Some(list) = text.parse().ok().filter(toml::Value::is_array) {
        return list;
    }
    // Invalid TOML list: stays text, which the type of the setting rejects.
    if text.starts_with('[') && text.ends_with(']') {
        return text.into();
    }
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    toml::Value::Array(entries.map(toml::Value::from).collect())
}

/// As [`Schema::nearest`], for keys whose parent may be unknown, too.
fn nearest_known(schema: &Schema<'_>, key: &[String]) -> Option<Vec<String>> {
    let known = (1..=key.len()).find(|length| schema.at(&key[..*length]) == KeyKind::Unknown)?;
    let corrected = schema.nearest(&key[..known])?;
    let whole = [corrected.as_slice(), &key[known..]].concat();
    match schema.at(&whole) {
        KeyKind::Setting(_) => Some(whole),
        KeyKind::Table => None,
        KeyKind::Unknown => nearest_known(schema, &whole).filter(|_| known < key.len()),
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
