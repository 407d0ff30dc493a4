//! `cargo xtask tidy`: the house rules that no compiler knows, each in its own file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::workspace::{self, Crate};
use files::File;

mod directions;
mod files;
mod generated;
mod leftovers;
mod licences;
mod links;
mod purpose_line;
mod size;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counted from 1; absent when the whole file is meant.
    line: Option<usize>,
    /// What is wrong and what to do about it.
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let platform = workspace::host_platform(root)?;
    let project = Project {
        files: files::read(root)?,
        crates: workspace::crates(root)?,
        // Only what this machine builds, so that nothing is downloaded which the next step does not need.
        packages: workspace::metadata(root, &["--all-features", "--filter-platform", &platform])?,
    };
    let mut total = 0;
    for (rule, findings) in check(&project) {
        println!("{rule}: {}", if findings.is_empty() { "ok" } else { "BROKEN" });
        for finding in &findings {
            println!("  {finding}");
        }
        total += findings.len();
    }
    if total > 0 {
        bail!("the house rules are broken in {total} {}", if total == 1 { "place" } else { "places" });
    }
    Ok(())
}

/// All that the rules look at.
#[derive(Debug)]
struct Project {
    files: Vec<File>,
    crates: Vec<Crate>,
    /// What `cargo metadata` says of each package in the build, dependencies included.
    packages: Value,
}

/// Each rule with the places that break it.
fn check(project: &Project) -> Vec<(&'static str, Vec<Finding>)> {
    let files = &project.files;
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let rust = || texts(files, ".rs");
    let markdown = || texts(files, ".md");
    vec![
        (
            "Rust files open with their purpose",
            rust().filter_map(|(p, t)| purpose_line::check(p, t)).collect(),
        ),
        ("crates depend in the allowed directions", directions::check(&project.crates)),
        ("no file is huge", files.iter().filter_map(|file| size::check(&file.path, file.bytes)).collect()),
        ("nothing is half done or switched off", rust().flat_map(|(p, t)| leftovers::check(p, t)).collect()),
        ("links lead somewhere", markdown().flat_map(|(p, t)| links::check(p, t, &paths)).collect()),
        (
            "generated documents are up to date",
            generated::check(|path| text_of(files, path)).into_iter().collect(),
        ),
        ("licences are allowed", licences::check(&project.packages, text_of(files, licences::ALLOW_LIST))),
    ]
}

fn texts<'a>(files: &'a [File], extension: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    files
        .iter()
        .filter(move |file| file.path.ends_with(extension))
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
}

fn text_of<'a>(files: &'a [File], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path)?.text.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), bytes: text.len() as u64, text: Some(text.to_owned()) }
    }

    fn member(name: &str) -> Crate {
        Crate {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            dependencies: vec![],
            binaries: vec![],
        }
    }

    #[test]
    fn a_tidy_project_breaks_no_rule() {
        let project = Project {
            files: vec![
                file("src/lib.rs", "//! Says what it is for.\n"),
                file("README.md", "[code](src/lib.rs)\n"),
                file("config/crawlway.toml", "a = 1\n"),
                file("docs/configuration.md", &crate::docs::settings::document("a = 1\n")),
                file("deny.toml", "[licenses]\nallow = [\"MIT\"]\n"),
            ],
            crates: vec![member("crawlway")],
            packages: json!({ "packages": [{ "name": "bytes", "version": "1.0.0", "license": "MIT" }] }),
        };
        for (rule, findings) in check(&project) {
            assert_eq!(findings, [], "{rule}");
        }
    }

    /// The rules are tested one by one in their files; this shows that each of them is asked.
    #[test]
    fn a_project_that_breaks_each_rule_once_has_one_finding_for_each() {
        let mut huge = file("page.html", "");
        huge.bytes = u64::MAX;
        let project = Project {
            files: vec![
                file("src/nameless.rs", "fn main() {}\n"),
                file("src/half.rs", concat!("//! Says what it is for.\nfn f() { to", "do!() }\n")),
                file("README.md", "[code](src/gone.rs)\n"),
                file("config/crawlway.toml", "a = 1\n"),
                file("deny.toml", "[licenses]\nallow = [\"MIT\"]\n"),
                huge,
            ],
            crates: vec![member("crawlway-surprise")],
            packages: json!({ "packages": [{ "name": "bytes", "version": "1.0.0", "license": "GPL-3.0" }] }),
        };
        for (rule, findings) in check(&project) {
            assert_eq!(findings.len(), 1, "{rule}: {findings:?}");
        }
    }

    #[test]
    fn a_finding_says_where() {
        let mut finding = Finding { path: "a.md".to_owned(), line: Some(3), message: "broken".to_owned() };
        assert_eq!(finding.to_string(), "a.md:3: broken");
        finding.line = None;
        assert_eq!(finding.to_string(), "a.md: broken");
    }
}
