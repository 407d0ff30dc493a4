//! Files of the project: tracked and untracked files of git, or all files without git.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// File, with its text if a rule reads it.
#[derive(Debug)]
pub(super) struct File {
    /// Path from the root of the project, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) text: Option<String>,
}

/// Extensions of files whose text is read.
const READ: &[&str] = &[".rs", ".md", ".toml"];

pub(super) fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths(root)? {
        // A tracked file may be deleted, and a submodule is listed as a folder.
        let bytes = match fs::metadata(root.join(&path)) {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(_) => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("looking at {path}")),
        };
        let text = if READ.iter().any(|ending| path.ends_with(ending)) {
            Some(fs::read_to_string(root.join(&path)).with_context(|| format!("reading {path}"))?)
        } else {
            None
        };
        files.push(File { path, bytes, text });
    }
    Ok(files)
}

fn paths(root: &Path) -> Result<BTreeSet<String>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    if let Ok(output) = listed
        && output.status.success()
    {
        let paths = parse_git_listing(&output.stdout);
        // An unpacked archive may be inside another repository that ignores it.
        if !paths.is_empty() {
            return Ok(paths);
        }
    }
    println!("(git lists no files here, so all files in the folder are checked)");
    let gitignore = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let mut paths = BTreeSet::new();
    walk(root, "", &ignored_paths(&gitignore), &mut paths)?;
    Ok(paths)
}

fn parse_git_listing(listing: &[u8]) -> BTreeSet<String> {
    listing
        .split(|&byte| byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}

/// Entries of `.gitignore` with a fixed path.
fn ignored_paths(gitignore: &str) -> BTreeSet<String> {
    gitignore
        .lines()
        .filter_map(|line| line.trim().strip_prefix('/'))
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect()
}

fn walk(root: &Path, folder: &str, ignored: &BTreeSet<String>, paths: &mut BTreeSet<String>) -> Result<()> {
    let entries =
        fs::read_dir(root.join(folder)).with_context(|| format!("listing the folder `{folder}`"))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("listing the folder `{folder}`"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if name == ".git" || name == "target" || ignored.contains(&path) {
            continue;
        }
        // Symbolic links are not followed, since they may form a cycle.
        if entry.file_type().with_context(|| format!("looking at {path}"))?.is_dir() {
            walk(root, &path, ignored, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_all_files_but_ignored_ones_are_listed() {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut all = BTreeSet::new();
        walk(xtask, "", &BTreeSet::new(), &mut all).unwrap();
        assert!(all.contains("Cargo.toml") && all.contains("src/tidy/files.rs"), "{all:?}");

        let mut some = BTreeSet::new();
        walk(xtask, "", &ignored_paths("/src/tidy/\n*.snap\n"), &mut some).unwrap();
        assert!(some.contains("src/tidy.rs") && !some.contains("src/tidy/files.rs"), "{some:?}");
    }
}
