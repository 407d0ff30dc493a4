//! Rule: links between documents resolve to files of the project.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::Finding;

/// Checks the links of a document against the files of the project in `paths`.
pub(super) fn check(path: &str, text: &str, paths: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if let Some(open) = fence {
            if start.starts_with(open) {
                fence = None;
            }
            continue;
        }
        fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        if fence.is_some() {
            continue;
        }
        for target in targets(&without_code(line)) {
            if let Some(fault) = fault(path, &target, paths) {
                let message = format!("the link `{target}` {fault}");
                findings.push(Finding { path: path.to_owned(), line: Some(index + 1), message });
            }
        }
    }
    findings
}

fn fault(path: &str, target: &str, paths: &BTreeSet<&str>) -> Option<&'static str> {
    if has_scheme(target) || target.starts_with("//") {
        return None;
    }
    let file = target.split(['#', '?']).next().unwrap_or("");
    if file.is_empty() {
        return None;
    }
    match resolve(path, &percent_decoded(file)) {
        None => Some("leaves the project"),
        Some(resolved) if exists(&resolved, paths) => None,
        Some(_) => Some("does not resolve; use a path relative to this document"),
    }
}

/// Targets of the links in one line: `[text](target)`, `[name]: target`, `href="target"`, `src="target"`.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (start, mark) in line.match_indices("](") {
        targets.extend(inline_target(&line[start + mark.len()..]));
    }
    if let Some((name, target)) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"))
        && !name.starts_with('^')
        && !name.contains(']')
    {
        targets.extend(target.split_whitespace().next().map(without_angle_brackets));
    }
    for attribute in ["href=\"", "src=\""] {
        for (start, mark) in line.match_indices(attribute) {
            targets.extend(line[start + mark.len()..].split_once('"').map(|(target, _)| target.to_owned()));
        }
    }
    targets
}

/// Target up to its closing parenthesis, without a title.
fn inline_target(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(target, _)| target.to_owned());
    }
    let mut open = 0;
    for (index, character) in text.char_indices() {
        match character {
            '(' => open += 1,
            ')' if open == 0 => return Some(text[..index].to_owned()),
            ')' => open -= 1,
            _ if character.is_whitespace() => return Some(text[..index].to_owned()),
            _ => {}
        }
    }
    None
}

fn without_angle_brackets(target: &str) -> String {
    target.trim_start_matches('<').trim_end_matches('>').to_owned()
}

/// Line without code spans, which contain no links.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|&c| c == '`').count();
        let (before, span) = (&rest[..start], &rest[start + ticks..]);
        kept.push_str(before);
        match span.find(&"`".repeat(ticks)) {
            Some(end) => rest = &span[end + ticks..],
            None => rest = span,
        }
    }
    kept + rest
}

/// Whether the target is an address such as `https://…` or `mailto:…`.
fn has_scheme(target: &str) -> bool {
    let Some((scheme, _)) = target.split_once(':') else { return false };
    scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Path from the root of the project; `None` outside of it.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => document.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn exists(path: &str, paths: &BTreeSet<&str>) -> bool {
    let folder = format!("{path}/");
    let first_after = || paths.range::<str, _>((Bound::Included(folder.as_str()), Bound::Unbounded)).next();
    path.is_empty() || paths.contains(path) || first_after().is_some_and(|next| next.starts_with(&folder))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] =
        &["README.md", "docs/a b.md", "docs/guarantees.md", "crates/app/src/main.rs", "x(1).md"];

    fn broken(path: &str, text: &str) -> Vec<Option<usize>> {
        check(path, text, &PATHS.iter().copied().collect()).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_resolve_pass() {
        for text in [
            "[g](docs/guarantees.md)",
            "[g](docs/guarantees.md#retry) and [more](./README.md \"title\")",
            "[folder](crates/app) [folder](crates/app/)",
            "[spaces](<docs/a b.md>) [spaces](docs/a%20b.md)",
            "[brackets](x(1).md)",
            "[from the root](/docs/guarantees.md)",
            "[here](#below) [out](https://example.com/gone.md) [write](mailto:a@example.com)",
            "[named]: docs/guarantees.md",
            "[^note]: gone.md is only a word in a footnote",
            "<img src=\"docs/guarantees.md\">",
        ] {
            assert_eq!(broken("README.md", text), [], "{text}");
        }
        assert_eq!(broken("docs/guarantees.md", "[up](../README.md) [root](..) [beside](a%20b.md)"), []);
    }

    #[test]
    fn broken_links_are_found_with_their_line() {
        for text in [
            "\n[g](docs/gone.md)",
            "\n![picture](docs/gone.png)",
            "\n[g](docs/gone.md#retry)",
            "\n[`code`](gone.rs)",
            "\n[[nested]](gone.md)",
            "\n[a](README.md) [b](gone.md)",
            "\n[half a folder](crates/ap)",
            "\n[half a folder](doc)",
            "\n[named]: gone.md",
            "\n[named]: <gone.md>",
            "\n<a href=\"gone.md\">",
            "\n[leaves](../external/README.md)",
            "\n[case](readme.md)",
            "\n[root](/guarantees.md)",
        ] {
            assert_eq!(broken("README.md", text), [Some(2)], "{text}");
        }
        assert_eq!(broken("docs/guarantees.md", "[seen from the root](docs/guarantees.md)"), [Some(1)]);
    }

    #[test]
    fn code_contains_no_links() {
        assert_eq!(broken("README.md", "`[g](gone.md)` and ``[`g`](gone.md)``"), []);
        assert_eq!(broken("README.md", "```md\n[g](gone.md)\n```\n\n~~~\n[g](gone.md)\n~~~\n"), []);
        assert_eq!(broken("README.md", "```md\n```\n[g](gone.md)\n"), [Some(3)], "after the code");
        assert_eq!(broken("README.md", "a lone ` and [g](gone.md)\n"), [Some(1)]);
    }
}
