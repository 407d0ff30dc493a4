//! Rule: each package in the build has a licence that `deny.toml` allows.
//!
//! `cargo deny` checks more, but has to be installed. This check needs only cargo.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Finding;

/// File with the allowed licences.
pub(super) const ALLOW_LIST: &str = "deny.toml";

pub(super) fn check(packages: &Value, deny_toml: Option<&str>) -> Vec<Finding> {
    let finding = |message: String| Finding { path: ALLOW_LIST.to_owned(), line: None, message };
    let allowed = deny_toml.map(allowed_licences).unwrap_or_default();
    if allowed.is_empty() {
        return vec![finding("lists no licence under `allow` in `[licenses]`".to_owned())];
    }
    let Some(packages) = packages["packages"].as_array().filter(|packages| !packages.is_empty()) else {
        return vec![finding("`cargo metadata` lists no package".to_owned())];
    };
    packages
        .iter()
        .filter_map(|package| {
            let fault = fault(package["license"].as_str(), &allowed)?;
            let name = package["name"].as_str().unwrap_or("?");
            let version = package["version"].as_str().unwrap_or("?");
            Some(finding(format!("`{name} {version}` {fault}; choose another crate, or allow the licence")))
        })
        .collect()
}

fn fault(licence: Option<&str>, allowed: &BTreeSet<&str>) -> Option<String> {
    let Some(licence) = licence else { return Some("has no licence".to_owned()) };
    match is_allowed(licence, allowed) {
        Some(true) => None,
        Some(false) => Some(format!("has the licence `{licence}`, which is not allowed")),
        None => Some(format!("has the licence `{licence}`, which is not a licence expression")),
    }
}

/// Quoted names in `allow = […]` under `[licenses]`.
fn allowed_licences(deny_toml: &str) -> BTreeSet<&str> {
    deny_toml
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .skip_while(|line| *line != "[licenses]")
        .skip(1)
        .take_while(|line| !is_table_header(line))
        .skip_while(|line| !line.starts_with("allow ") && !line.starts_with("allow="))
        .scan(false, |ended, line| {
            let go_on = !*ended;
            *ended = line.ends_with(']');
            go_on.then_some(line)
        })
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .collect()
}

fn is_table_header(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && !line.contains('"')
}

/// Whether allowed licences satisfy an expression; `None` for an invalid expression.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> Option<bool> {
    // Older crates write `MIT/Apache-2.0` and mean a choice.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let result = choice(&mut words, allowed)?;
    words.next().is_none().then_some(result)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn choice(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut result = all_of(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        result |= all_of(words, allowed)?;
    }
    Some(result)
}

fn all_of(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut result = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed)?;
    }
    Some(result)
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    match words.next()? {
        "(" => {
            let result = choice(words, allowed)?;
            words.next_if_eq(&")").map(|_| result)
        }
        ")" | "AND" | "OR" | "WITH" => None,
        licence if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next()?;
            Some(allowed.contains(format!("{licence} WITH {exception}").as_str()))
        }
        licence => Some(allowed.contains(licence)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DENY_TOML: &str = "\
[advisories]
allow = [\"GPL-3.0\"]

[licenses]
# Not here: \"LGPL-2.1\"
allow = [
    \"MIT\",
    \"Apache-2.0\", # not \"AGPL-3.0\"
    \"Unicode-3.0\",
]
private = [\"Secret\"]

[bans]
deny = [\"openssl-sys\"]
";

    fn messages(licence: Option<&str>) -> Vec<String> {
        let packages = json!({ "packages": [{ "name": "bytes", "version": "1.2.3", "license": licence }] });
        check(&packages, Some(DENY_TOML)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn only_the_list_of_allowed_licences_is_read() {
        assert_eq!(Vec::from_iter(allowed_licences(DENY_TOML)), ["Apache-2.0", "MIT", "Unicode-3.0"]);
        let on_one_line = "[licenses]\nallow = [\"MIT\", \"ISC\"]\nother = [\"GPL-3.0\"]\n";
        assert_eq!(Vec::from_iter(allowed_licences(on_one_line)), ["ISC", "MIT"]);
    }

    #[test]
    fn allowed_licences_pass() {
        for licence in [
            "MIT",
            "MIT OR GPL-3.0",
            "Unlicense/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(messages(Some(licence)).is_empty(), "{licence}");
        }
    }

    #[test]
    fn other_licences_are_found() {
        for licence in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND BSD-3-Clause",
            "Apache-2.0 WITH LLVM-exception",
            "MIT-0",
            "mit",
        ] {
            let messages = messages(Some(licence));
            assert_eq!(messages.len(), 1, "{licence}");
            assert!(
                messages[0].contains("`bytes 1.2.3`") && messages[0].contains("not allowed"),
                "{messages:?}"
            );
        }
    }

    #[test]
    fn missing_and_invalid_licences_are_found() {
        for licence in [None, Some(""), Some("MIT OR"), Some("(MIT"), Some("MIT Apache-2.0")] {
            assert_eq!(messages(licence).len(), 1, "{licence:?}");
        }
    }
}
