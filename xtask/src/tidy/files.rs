//! The files of the project: what git tracks or would track, or the folder itself where there is no git.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// A file, with its text if a rule reads it.
#[derive(Debug)]
pub(super) struct File {
    /// From the root of the project, with `/` between folders.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) text: Option<String>,
}

/// What rules read. Other files are only listed and weighed.
const READ: &[&str] = &[".rs", ".md", ".toml"];

pub(super) fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths(root)? {
        // A file that git knows may be deleted in the working copy, and a folder is listed for a submodule.
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
        // An unpacked archive may lie inside someone else's repository that ignores it.
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

/// The entries of a `.gitignore` that name one path, which are the ones that name folders full of files.
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
        // The entry's own type: a link to a folder is not entered, since it may lead in a circle.
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
    fn a_listing_by_git_is_read_with_its_odd_names() {
        let paths = parse_git_listing(b"src/main.rs\0docs/a b.md\0src/main.rs\0");
        assert_eq!(Vec::from_iter(paths), ["docs/a b.md", "src/main.rs"]);
    }

    #[test]
    fn without_git_the_folder_is_walked_but_for_what_is_ignored() {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut all = BTreeSet::new();
        walk(xtask, "", &BTreeSet::new(), &mut all).unwrap();
        assert!(all.contains("Cargo.toml") && all.contains("src/tidy/files.rs"), "{all:?}");

        let mut some = BTreeSet::new();
        walk(xtask, "", &ignored_paths("/src/tidy/\n*.snap\n"), &mut some).unwrap();
        assert!(some.contains("src/tidy.rs") && !some.contains("src/tidy/files.rs"), "{some:?}");
    }
}
