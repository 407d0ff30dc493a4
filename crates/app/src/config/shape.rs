//! Which keys there are, as the defaults have them, and which one was probably meant.

use super::layers::Entry;

/// The known keys.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    defaults: &'a [Entry],
}

/// What a key is.
#[derive(Debug, PartialEq)]
pub(super) enum Known<'a> {
    /// A table of keys.
    Table,
    /// A setting, with its default.
    Setting(&'a toml::Value),
    Unknown,
}

impl<'a> Shape<'a> {
    pub(super) fn of(defaults: &'a [Entry]) -> Self {
        Self { defaults }
    }

    pub(super) fn at(&self, key: &[String]) -> Known<'a> {
        // Somebody who writes `[queue.default]` means the defaults, and not a queue of that name.
        if matches!(key, [queue, name, ..] if queue == "queue" && name == "default") {
            return Known::Unknown;
        }
        let key = as_default(key);
        match self.defaults.iter().find(|entry| entry.key.starts_with(&key)) {
            Some(entry) if entry.key.len() == key.len() => Known::Setting(&entry.value),
            Some(_) => Known::Table,
            None => Known::Unknown,
        }
    }

    /// The known key that is nearest to an unknown one whose parent is known, if one is near.
    pub(super) fn nearest(&self, unknown: &[String]) -> Option<Vec<String>> {
        let (last, parent) = unknown.split_last()?;
        let default_parent = as_default(parent);
        let mut siblings: Vec<&str> = Vec::new();
        for entry in self.defaults.iter().filter(|entry| entry.key.starts_with(&default_parent)) {
            let sibling = entry.key[parent.len()].as_str();
            if !siblings.contains(&sibling) {
                siblings.push(sibling);
            }
        }
        if let Some(sibling) = nearest(last, siblings) {
            return Some([parent, &[sibling.to_owned()]].concat());
        }
        // Right name, wrong table.
        let elsewhere = self.defaults.iter().find(|entry| entry.key.last() == Some(last));
        elsewhere.map(|entry| entry.key.clone())
    }
}

/// The key in the defaults that says what this one may be: queues of their own are like the defaults of all.
fn as_default(key: &[String]) -> Vec<String> {
    let mut key = key.to_vec();
    if let [queue, name, ..] = key.as_mut_slice()
        && queue == "queue"
    {
        *name = "defaults".to_owned();
    }
    key
}

/// The candidate that is nearest to what was written, if it is near enough to be a slip.
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
        let shape = Shape::of(&defaults);
        assert_eq!(shape.at(&key(unknown)), Known::Unknown, "{unknown}");
        shape.nearest(&key(unknown)).map(|key| key.join("."))
    }

    #[test]
    fn slips_find_what_was_meant() {
        for (unknown, meant) in [
            ("data_dri", "data_dir"),
            ("datadir", "data_dir"),
            ("brokr", "broker"),
            ("broker.embeded", "broker.embedded"),
            ("queue.default", "queue.defaults"),
            ("queue.jobs.max_atempts", "queue.jobs.max_attempts"),
            ("broker.max_message", "broker.embedded.max_message"),
        ] {
            assert_eq!(suggestion(unknown).as_deref(), Some(meant));
        }
        assert_eq!(suggestion("colour"), None);
    }
}
