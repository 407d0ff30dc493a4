//! Schema of the settings, from the defaults, and suggestions for misspelt keys.

use super::{brokers, layers::Entry};

/// Schema of the settings: all keys with their defaults.
#[derive(Debug)]
pub(super) struct Schema<'a> {
    defaults: &'a [Entry],
}

/// Kind of a key.
#[derive(Debug, PartialEq)]
pub(super) enum KeyKind<'a> {
    /// Table of keys.
    Table,
    /// Setting with its default.
    Setting(&'a toml::Value),
    Unknown,
}

impl<'a> Schema<'a> {
    pub(super) fn of(defaults: &'a [Entry]) -> Self {
        Self { defaults }
    }

    pub(super) fn at(&self, key: &[String]) -> KeyKind<'a> {
        match key {
            // `[queue.default]` is a misspelt `[queue.defaults]`, not a queue; the default broker is `[broker]`.
            [table, name, ..]
                if (table == "queue" || table == brokers::TABLE) && name == brokers::DEFAULT =>
            {
                return KeyKind::Unknown;
            }
            [table] if table == brokers::TABLE => return KeyKind::Table,
            _ => {}
        }
        let key = as_default(key);
        match self.defaults.iter().find(|entry| entry.key.starts_with(&key)) {
            Some(entry) if entry.key.len() == key.len() => KeyKind::Setting(&entry.value),
            Some(_) => KeyKind::Table,
            None => KeyKind::Unknown,
        }
    }

    /// KeyKind key similar to an unknown one whose parent is known.
    pub(super) fn nearest(&self, unknown: &[String]) -> Option<Vec<String>> {
        let (last, parent) = unknown.split_last()?;
        // The name `default`.
        if matches!(parent, [table] if table == brokers::TABLE) {
            return Some(brokers::as_default_key(unknown));
        }
        let default_parent = as_default(parent);
        let mut siblings: Vec<&str> = if parent.is_empty() { vec![brokers::TABLE] } else { Vec::new() };
        for entry in self.defaults.iter().filter(|entry| entry.key.starts_with(&default_parent)) {
            let sibling = entry.key[default_parent.len()].as_str();
            if !siblings.contains(&sibling) {
                siblings.push(sibling);
            }
        }
        if let Some(sibling) = nearest(last, siblings) {
            return Some([parent, &[sibling.to_owned()]].concat());
        }
        // The same name in another table.
        let elsewhere = self.defaults.iter().find(|entry| entry.key.last() == Some(last));
        elsewhere.map(|entry| match brokers::name_in(unknown) {
            Some(name) if default_parent.first() == entry.key.first() => brokers::named_key(name, &entry.key),
            _ => entry.key.clone(),
        })
    }
}

/// Key in the defaults with the same type: tables of single queues have the keys of `[queue.defaults]`, those of named brokers
/// the keys of `[broker]`.
fn as_default(key: &[String]) -> Vec<String> {
    let mut key = brokers::as_default_key(key);
    if let [queue, name, ..] = key.as_mut_slice()
        && queue == "queue"
    {
        *name = "defaults".to_owned();
    }
    key
}

/// Most similar candidate, if it is similar enough to be a misspelling.
fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (written.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(written, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULTS, layers};

    fn key(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    fn suggestion(unknown: &str) -> Option<String> {
        let defaults = layers::defaults(DEFAULTS).unwrap();
        let schema = Schema::of(&defaults);
        assert_eq!(schema.at(&key(unknown)), KeyKind::Unknown, "{unknown}");
        schema.nearest(&key(unknown)).map(|key| key.join("."))
    }

    #[test]
    fn misspelt_keys_get_suggestions() {
        for (unknown, meant) in [
            ("data_dri", "data_dir"),
            ("datadir", "data_dir"),
            ("brokr", "broker"),
            ("broker.embeded", "broker.embedded"),
            ("queue.default", "queue.defaults"),
            ("queue.jobs.max_atempts", "queue.jobs.max_attempts"),
            ("broker.max_message", "broker.embedded.max_message"),
            ("brokrs", "brokers"),
            ("brokers.default", "broker"),
            ("brokers.events.knd", "brokers.events.kind"),
            ("brokers.events.rabbitmq.tls.certificat", "brokers.events.rabbitmq.tls.certificate"),
            ("brokers.events.max_message", "brokers.events.embedded.max_message"),
        ] {
            assert_eq!(suggestion(unknown).as_deref(), Some(meant));
        }
        assert_eq!(suggestion("colour"), None);
    }
}
