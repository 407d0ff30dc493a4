//! Where the workspace is, and what cargo says about it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A crate of the workspace, as far as the chores care.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Path of its `Cargo.toml` from the root of the workspace.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) binaries: Vec<Binary>,
}

/// A line of a crate's `[dependencies]`, `[build-dependencies]` or `[dev-dependencies]`.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether only the crate's tests see it.
    pub(crate) only_for_tests: bool,
}

/// A program that a crate builds.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) source: PathBuf,
}

/// The folder that holds the workspace's `Cargo.toml`.
///
/// Asked for when running rather than compiled in, so that a build cache shared by two clones cannot make one
/// clone check the other.
pub(crate) fn root() -> Result<PathBuf> {
    let start = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(xtask) => PathBuf::from(xtask),
        None => env::current_dir().context("finding the current folder")?,
    };
    start
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file() && folder.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside the workspace", start.display()))
}

/// A cargo command that runs in the root of the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    forget_xtask(&mut command);
    command
}

/// Takes out of a command's environment what `cargo run` has put there to describe xtask. Some build scripts watch
/// these variables, and would build their crate anew each time someone goes from `cargo xtask` to plain cargo and
/// back.
pub(crate) fn forget_xtask(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let inherited = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME"
        });
        if inherited {
            command.env_remove(&name);
        }
    }
}

/// Where cargo puts what it builds, whichever way it was told.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    Ok(text(&metadata(root, &["--no-deps"])?, "target_directory")?.into())
}

/// The crates of the workspace.
pub(crate) fn crates(root: &Path) -> Result<Vec<Crate>> {
    parse_crates(&metadata(root, &["--no-deps"])?, root)
}

/// What `cargo metadata` answers, with `args` added to the question.
pub(crate) fn metadata(root: &Path, args: &[&str]) -> Result<Value> {
    let output = cargo(root)
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .output()
        .context("starting `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("reading the answer of `cargo metadata`")
}

/// The kind of machine that cargo builds for when it is told nothing else.
pub(crate) fn host_platform(root: &Path) -> Result<String> {
    let output = cargo(root).arg("-vV").output().context("starting `cargo -vV`")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("`cargo -vV` does not say which platform it runs on")
}

fn parse_crates(metadata: &Value, root: &Path) -> Result<Vec<Crate>> {
    list(metadata, "packages")?.iter().map(|package| parse_crate(package, root)).collect()
}

fn parse_crate(package: &Value, root: &Path) -> Result<Crate> {
    let manifest = Path::new(text(package, "manifest_path")?);
    let dependencies = list(package, "dependencies")?
        .iter()
        .map(|dependency| {
            let only_for_tests = dependency["kind"].as_str() == Some("dev");
            Ok(Dependency { name: text(dependency, "name")?.to_owned(), only_for_tests })
        })
        .collect::<Result<_>>()?;
    let binaries = list(package, "targets")?
        .iter()
        .filter(|target| {
            target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"))
        })
        .map(|target| {
            Ok(Binary { name: text(target, "name")?.to_owned(), source: text(target, "src_path")?.into() })
        })
        .collect::<Result<_>>()?;
    Ok(Crate {
        name: text(package, "name")?.to_owned(),
        manifest: manifest.strip_prefix(root).unwrap_or(manifest).display().to_string(),
        dependencies,
        binaries,
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("`cargo metadata` answered without the text `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("`cargo metadata` answered without the list `{key}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_is_read_with_its_dependencies_and_binaries() {
        let metadata = json!({ "packages": [{
            "name": "crawlway-bench",
            "manifest_path": "/clone/bench/Cargo.toml",
            "dependencies": [
                { "name": "bytes", "kind": null },
                { "name": "cc", "kind": "build" },
                { "name": "proptest", "kind": "dev" },
            ],
            "targets": [
                { "name": "queue", "kind": ["bin"], "src_path": "/clone/bench/src/bin/queue.rs" },
                { "name": "crawlway_bench", "kind": ["lib"], "src_path": "/clone/bench/src/lib.rs" },
            ],
        }]});
        let crates = parse_crates(&metadata, Path::new("/clone")).unwrap();
        assert_eq!(crates.len(), 1);
        assert_eq!(crates[0].manifest, "bench/Cargo.toml");
        let only_for_tests: Vec<_> =
            crates[0].dependencies.iter().map(|d| (d.name.as_str(), d.only_for_tests)).collect();
        assert_eq!(only_for_tests, [("bytes", false), ("cc", false), ("proptest", true)]);
        assert_eq!(crates[0].binaries.len(), 1);
        assert_eq!(crates[0].binaries[0].name, "queue");
    }

    #[test]
    fn an_answer_in_another_shape_is_an_error_and_not_an_empty_list() {
        let error = parse_crates(&json!({ "crates": [] }), Path::new("/clone")).unwrap_err();
        assert!(error.to_string().contains("`packages`"), "{error}");
    }
}
