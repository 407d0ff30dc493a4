//! Rule: nothing is committed half done, and no test is switched off.

use super::Finding;

/// What is looked for, and what to do instead. Each is spelled in two pieces, since this file is checked too.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it, or return an error that says it is not there yet"),
    (concat!("unimplement", "ed!"), "finish it, or return an error that says it is not there yet"),
    (concat!("#[ign", "ore"), "a test that does not run proves nothing: make it pass, or delete it"),
    (concat!("FIX", "ME"), "mend it now, or write down what is left where users look for it"),
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
        if switches_off_under_a_condition(line) {
            report("ignore", "a test that a condition switches off passes unseen: let it fail there");
        }
    }
    findings
}

/// A macro counts only where it is called, so that prose may end in "to do!".
fn contains_leftover(line: &str, leftover: &str) -> bool {
    line.match_indices(leftover).any(|(start, _)| {
        let next = line[start + leftover.len()..].chars().next();
        let previous = line[..start].chars().next_back();
        let inside_a_word = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside_a_word && (!leftover.ends_with('!') || matches!(next, Some('(' | '[' | '{')))
    })
}

fn switches_off_under_a_condition(line: &str) -> bool {
    let Some((_, condition)) = line.split_once("#[cfg_attr(") else { return false };
    condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "ignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leftover_is_found_with_its_line() {
        for (leftover, _) in LEFTOVERS {
            let line =
                if leftover.ends_with('!') { format!("    {leftover}()") } else { (*leftover).to_owned() };
            let findings = check("a.rs", &format!("fn f() {{}}\n{line}\n"));
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert_eq!(findings[0].line, Some(2));
            assert!(findings[0].message.contains(leftover), "{}", findings[0]);
        }
    }

    #[test]
    fn leftovers_are_found_in_all_their_spellings() {
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
    fn words_that_only_look_alike_pass() {
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
