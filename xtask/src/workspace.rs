//! Root and crates of the workspace, from `cargo metadata`.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Crate of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Path of `Cargo.toml` from the root of the workspace.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) binaries: Vec<Binary>,
}

/// Dependency of any kind.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether it is in `[dev-dependencies]`.
    pub(crate) is_dev: bool,
}

/// Binary target of a crate.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) source: PathBuf,
}

/// Root of the workspace, found at run time, since clones may share a build cache.
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

/// Cargo command in the root of the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    remove_xtask_env(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for xtask. Some build scripts depend on them, and would rebuild their crate after
/// each change between `cargo xtask` and plain cargo.
pub(crate) fn remove_xtask_env(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let inherited = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME"
        });
        if inherited {
            command.env_remove(&name);
        }
    }
}

/// Target directory of cargo.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    Ok(text(&metadata(root, &["--no-deps"])?, "target_directory")?.into())
}

/// Crates of the workspace.
pub(crate) fn crates(root: &Path) -> Result<Vec<Crate>> {
    parse_crates(&metadata(root, &["--no-deps"])?, root)
}

/// Names of all integration tests of the workspace but those of one crate.
pub(crate) fn test_targets(root: &Path) -> Result<BTreeSet<String>> {
    let metadata = metadata(root, &["--no-deps"])?;
    let mut names = BTreeSet::new();
    for package in list(&metadata, "packages")? {
        for target in list(package, "targets")? {
            if target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "test")) {
                names.insert(text(target, "name")?.to_owned());
            }
        }
    }
    Ok(names)
}

/// Output of `cargo metadata` with these arguments.
pub(crate) fn metadata(root: &Path, args: &[&str]) -> Result<Value> {
    let output = cargo(root)
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .output()
        .context("starting `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("parsing the output of `cargo metadata`")
}

/// Default target platform of cargo.
pub(crate) fn host_platform(root: &Path) -> Result<String> {
    let output = cargo(root).arg("-vV").output().context("starting `cargo -vV`")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("`cargo -vV` prints no host")
}

fn parse_crates(metadata: &Value, root: &Path) -> Result<Vec<Crate>> {
    list(metadata, "packages")?.iter().map(|package| parse_crate(package, root)).collect()
}

fn parse_crate(package: &Value, root: &Path) -> Result<Crate> {
    let manifest = Path::new(text(package, "manifest_path")?);
    let dependencies = list(package, "dependencies")?
        .iter()
        .map(|dependency| {
            let is_dev = dependency["kind"].as_str() == Some("dev");
            Ok(Dependency { name: text(dependency, "name")?.to_owned(), is_dev })
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
    value[key].as_str().with_context(|| format!("the output of `cargo metadata` has no string `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("the output of `cargo metadata` has no list `{key}`"))
}
