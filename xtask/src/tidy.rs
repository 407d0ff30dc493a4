//! `cargo xtask tidy`: project rules that no compiler checks, each in its own file.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::workspace::{self, Crate};
use files::File;

mod directions;
mod doc_links;
mod files;
mod generated_docs;
mod leftovers;
mod licences;
mod purpose_line;
mod size;

/// Violation of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Line from 1; `None` for the whole file.
    line: Option<usize>,
    /// Problem and fix.
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
        // Packages of this platform only, so that no others are downloaded.
        packages: workspace::metadata(root, &["--all-features", "--filter-platform", &platform])?,
    };
    let mut total = 0;
    for (rule, findings) in check(&project) {
        println!("{rule}: {}", if findings.is_empty() { "ok" } else { "FAILED" });
        for finding in &findings {
            println!("  {finding}");
        }
        total += findings.len();
    }
    if total > 0 {
        bail!("{total} violations of the project rules");
    }
    Ok(())
}

/// Input of the rules.
#[derive(Debug)]
struct Project {
    files: Vec<File>,
    crates: Vec<Crate>,
    /// Output of `cargo metadata` with all dependencies.
    packages: Value,
}

/// Each rule with its violations.
fn check(project: &Project) -> Vec<(&'static str, Vec<Finding>)> {
    let files = &project.files;
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let rust = || texts(files, ".rs");
    let markdown = || texts(files, ".md");
    vec![
        (
            "Rust files start with their purpose",
            rust().filter_map(|(p, t)| purpose_line::check(p, t)).collect(),
        ),
        ("crates depend in the allowed directions", directions::check(&project.crates)),
        ("no file is huge", files.iter().filter_map(|file| size::check(&file.path, file.bytes)).collect()),
        (
            "no code is unfinished and no test disabled",
            rust().flat_map(|(p, t)| leftovers::check(p, t)).collect(),
        ),
        ("links resolve", markdown().flat_map(|(p, t)| doc_links::check(p, t, &paths)).collect()),
        (
            "generated documents are up to date",
            generated_docs::check(|path| text_of(files, path)).into_iter().collect(),
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
    fn a_tidy_project_has_no_findings() {
        let project = Project {
            files: vec![
                file("src/lib.rs", "//! Purpose of the file.\n"),
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

    #[test]
    fn each_violated_rule_has_a_finding() {
        let mut huge = file("page.html", "");
        huge.bytes = u64::MAX;
        let project = Project {
            files: vec![
                file("src/nameless.rs", "fn main() {}\n"),
                file("src/half.rs", concat!("//! Purpose of the file.\nfn f() { to", "do!() }\n")),
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
}
