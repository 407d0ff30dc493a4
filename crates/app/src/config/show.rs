//! Output of `config show`: each setting with its source, secrets masked.

use super::{
    Loaded,
    layers::{Entry, Origin},
    secret,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// One setting as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    value: toml::Value,
    source: Origin,
}

impl Setting {
    pub(crate) fn source(&self) -> &Origin {
        &self.source
    }
}

/// All settings by key.
pub(crate) fn settings(loaded: &Loaded) -> BTreeMap<String, Setting> {
    let setting = |entry: &Entry| Setting {
        value: secret::masked(&entry.key, &entry.value),
        source: entry.origin.clone(),
    };
    loaded.entries.iter().map(|entry| (dotted(&entry.key), setting(entry))).collect()
}

/// Settings as an equivalent TOML file, with the source of each as a comment.
pub(crate) fn as_toml(loaded: &Loaded) -> String {
    // Keys of one table may come from several sources, but must be together in a file.
    let mut tables: Vec<(&[String], Vec<&Entry>)> = Vec::new();
    for entry in &loaded.entries {
        let table = entry.key.split_last().map_or(&[] as &[String], |(_, table)| table);
        match tables.iter_mut().find(|(known, _)| *known == table) {
            Some((_, entries)) => entries.push(entry),
            None => tables.push((table, vec![entry])),
        }
    }
    let mut text = String::new();
    for (table, entries) in tables {
        if !table.is_empty() {
            text.push_str(&format!("\n[{}]\n", dotted(table)));
        }
        let line = |entry: &&Entry| {
            let name = entry.key.last().map(String::as_str).unwrap_or_default();
            format!("{} = {}", quoted(name), inline(&secret::masked(&entry.key, &entry.value)))
        };
        let width = entries.iter().map(|entry| line(entry).chars().count()).max().unwrap_or_default();
        for entry in &entries {
            text.push_str(&format!("{:width$}  # {}\n", line(entry), entry.origin));
        }
    }
    text
}

/// Dotted key in TOML syntax.
pub(super) fn dotted(key: &[String]) -> String {
    key.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".")
}

/// Value in TOML syntax, on one line.
pub(super) fn inline(value: &toml::Value) -> String {
    value.to_string()
}

fn quoted(part: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !part.is_empty() && part.chars().all(bare) {
        return part.to_owned();
    }
    toml::Value::from(part).to_string()
}
