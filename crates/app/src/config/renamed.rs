//! Settings that were renamed: an old key is refused with its new name, and `crawlway config migrate` rewrites a file.

use super::layers::line_of;
use toml::de::{DeTable, DeValue};

/// Old and new keys. A renamed table comes before its keys, which are listed under its old name.
const RENAMED: &[(&str, &str)] = &[
    ("only_worker", "one_process_per_stage"),
    ("fetch.in_flight", "fetch.per_host_concurrency"),
    ("fetch.gap", "fetch.min_delay"),
    ("fetch.memory", "fetch.max_memory"),
    ("fetch.robots_max_wait", "fetch.max_robots_wait"),
    ("gate", "rate_limit"),
    ("gate.kind", "rate_limit.kind"),
    ("gate.back_off", "rate_limit.backoff_delay"),
    ("gate.longest_back_off", "rate_limit.max_backoff_delay"),
    ("gate.breaker_failures", "rate_limit.breaker_failures"),
    ("gate.breaker_cool_down", "rate_limit.breaker_cooldown"),
    ("records.postgresql.connections", "records.postgresql.max_connections"),
    ("records.postgresql.open_within", "records.postgresql.connect_timeout"),
    ("search.fetch_at_once", "search.concurrency"),
    ("search.retry_after", "search.retry_delay"),
    ("search.longest_retry", "search.max_retry_delay"),
    ("search.claim", "search.claim_ttl"),
    ("search.most_waiting", "search.max_pending_pages"),
    ("search.max_waiting_urls", "search.max_pending_urls"),
    ("search.max_waiting_urls_per_host", "search.max_pending_urls_per_host"),
    ("search.drain", "search.drain_timeout"),
    ("search.traps.longest_chain", "search.traps.max_chain"),
    ("search.traps.queries_per_path", "search.traps.max_queries_per_path"),
    ("search.traps.combinations_per_path", "search.traps.max_combinations_per_path"),
    ("search.traps.most_segments", "search.traps.max_segments"),
    ("search.traps.longest_url", "search.traps.max_url_length"),
    ("inventory.max_tries", "inventory.max_attempts"),
    ("inventory.robots_max_wait", "inventory.max_robots_wait"),
    ("inventory.cache_size", "inventory.max_cache_size"),
    ("inventory.most_accepted", "inventory.max_accepted"),
    ("inventory.mongodb.open_within", "inventory.mongodb.connect_timeout"),
    ("gateway.time_limit", "gateway.request_timeout"),
    ("gateway.serve_the_whole_network_unprotected", "gateway.allow_unauthenticated"),
];

/// New name of a key that was renamed.
pub(super) fn new_name(key: &[String]) -> Option<Vec<String>> {
    let old = key.join(".");
    let (_, new) = RENAMED.iter().find(|(name, _)| *name == old)?;
    Some(new.split('.').map(str::to_owned).collect())
}

/// A key that was renamed in a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Renaming {
    pub(crate) line: usize,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// The text of a settings file with new keys for old ones, and what was renamed. Comments and values stay as they are.
///
/// # Errors
/// When the text is not valid TOML, or has both the old and the new name of a setting.
pub(crate) fn migrate(text: &str) -> Result<(String, Vec<Renaming>), String> {
    let (mut text, mut renamings) = (text.to_owned(), Vec::new());
    loop {
        let parsed = DeTable::parse(&text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let Some((offset, renaming)) = first_old_key(parsed.get_ref(), &mut Vec::new(), &text) else { break };
        let old = last_part(&renaming.old);
        // A quoted key is replaced within its quotes.
        let at = offset + text[offset..].find(old).unwrap_or_default();
        text.replace_range(at..at + old.len(), last_part(&renaming.new));
        renamings.push(renaming);
    }
    renamings.sort_by_key(|renaming| renaming.line);
    Ok((text, renamings))
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Offset and names of the first old key. Parents in `path` may have old or new names.
fn first_old_key(table: &DeTable<'_>, path: &mut Vec<String>, text: &str) -> Option<(usize, Renaming)> {
    for (name, value) in table {
        path.push(name.get_ref().to_string());
        let old = with_old_tables(path);
        let new = new_name(&old).filter(|new| new.last() != old.last());
        // An old key in a table with its new name is listed under the old name of the table.
        let found = new.filter(|new| path.last() != new.last()).map(|new| {
            let offset = name.span().start;
            (offset, Renaming { line: line_of(text, offset), old: old.join("."), new: new.join(".") })
        });
        let below = match value.get_ref() {
            DeValue::Table(table) if found.is_none() => first_old_key(table, path, text),
            _ => found,
        };
        path.pop();
        if below.is_some() {
            return below;
        }
    }
    None
}

/// Key with the old names of its tables, as in [`RENAMED`].
fn with_old_tables(path: &[String]) -> Vec<String> {
    let mut old = path.to_vec();
    if let [table, _, ..] = old.as_mut_slice()
        && let Some((before, _)) = RENAMED.iter().find(|(before, new)| !before.contains('.') && new == table)
    {
        *table = (*before).to_owned();
    }
    old
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        DEFAULTS, layers,
        schema::{KeyKind, Schema},
    };

    #[test]
    fn old_names_are_gone_and_new_names_exist() {
        let defaults = layers::defaults(DEFAULTS).unwrap();
        let schema = Schema::of(&defaults);
        let key = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        for (old, new) in RENAMED {
            assert_eq!(schema.at(&key(old)), KeyKind::Unknown, "{old}");
            assert_ne!(schema.at(&key(new)), KeyKind::Unknown, "{new}");
        }
    }

    #[test]
    fn a_file_keeps_its_comments_and_values() {
        let before = "\
# mine
fetch.gap = \"2s\" # polite
[gate] # and this
kind = \"redis\"
\"back_off\" = \"3s\"
[search]
fetch_at_once=8
traps = { longest_url = 100 }
[queue.x]
lease = \"1min\"
";
        let after = "\
# mine
fetch.min_delay = \"2s\" # polite
[rate_limit] # and this
kind = \"redis\"
\"backoff_delay\" = \"3s\"
[search]
concurrency=8
traps = { max_url_length = 100 }
[queue.x]
lease = \"1min\"
";
        let (text, renamings) = migrate(before).unwrap();
        assert_eq!(text, after);
        let lines: Vec<(usize, &str)> = renamings.iter().map(|r| (r.line, r.new.as_str())).collect();
        assert_eq!(
            lines,
            [
                (2, "fetch.min_delay"),
                (3, "rate_limit"),
                (5, "rate_limit.backoff_delay"),
                (7, "search.concurrency"),
                (8, "search.traps.max_url_length"),
            ]
        );
        assert_eq!(migrate(after).unwrap(), (after.to_owned(), vec![]), "a second time changes nothing");
    }

    #[test]
    fn dotted_keys_of_a_renamed_table_are_all_renamed() {
        let (text, _) = migrate("gate.kind = \"redis\"\ngate.back_off = \"3s\"\n").unwrap();
        assert_eq!(text, "rate_limit.kind = \"redis\"\nrate_limit.backoff_delay = \"3s\"\n");
    }

    #[test]
    fn both_names_of_a_setting_are_an_error() {
        assert!(
            migrate("[fetch]\ngap = \"1s\"\nmin_delay = \"2s\"\n").unwrap_err().contains("duplicate key")
        );
        assert!(migrate("[fetch\n").is_err());
    }
}
