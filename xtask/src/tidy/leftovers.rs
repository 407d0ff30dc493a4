//! Rule: no code is unfinished, and no test is disabled.

use super::Finding;

/// Leftovers and their fixes, each split in two, since this file is checked too.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it, or return an error"),
    (concat!("unimplement", "ed!"), "finish it, or return an error"),
    (concat!("#[ign", "ore"), "make the test pass, or delete it"),
    (concat!("FIX", "ME"), "fix it, or document the limitation"),
];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut report = |what: &str, advice: &str| {
            let message = format!("`{what}` was left here; {advice}");
            findings.push(Finding { path: path.to_owned(), line: Some(index + 1), message });
        };
        for (leftover, advice) in LEFTOVERS {
            if contains_leftover(line, leftover) {
                report(leftover, advice);
            }
        }
        if disables_conditionally(line) {
            report("ignore", "a conditionally disabled test passes unnoticed: let it fail");
        }
    }
    findings
}

/// Whether a line contains a leftover; a macro only where it is called.
fn contains_leftover(line: &str, leftover: &str) -> bool {
    line.match_indices(leftover).any(|(start, _)| {
        let next = line[start + leftover.len()..].chars().next();
        let previous = line[..start].chars().next_back();
        let inside_a_word = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside_a_word && (!leftover.ends_with('!') || matches!(next, Some('(' | '[' | '{')))
    })
}

fn disables_conditionally(line: &str) -> bool {
    let Some((_, condition)) = line.split_once("#[cfg_attr(") else { return false };
    condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "ignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found() {
        for line in [
            concat!("let x = to", "do![];"),
            concat!("match x { _ => to", "do!(\"later\") }"),
            concat!("#[ign", "ore = \"slow\"]"),
            concat!("// FIX", "ME: wrong"),
            concat!("#[cfg_", "attr(not(feature = \"kafka\"), ignore)]"),
            concat!("#[cfg_", "attr(miri, ignore = \"slow\")]"),
        ] {
            assert_eq!(check("a.rs", line).len(), 1, "{line}");
        }
    }

    #[test]
    fn similar_words_pass() {
        for line in [
            "// There is nothing to do!",
            concat!("my_to", "do!()"),
            "#[cfg_attr(docsrs, doc(cfg(feature = \"ignored\")))]",
            "let ignore = true;",
        ] {
            assert_eq!(check("a.rs", line), [], "{line}");
        }
    }
}
