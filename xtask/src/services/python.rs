//! Python virtual environment with the packages of the foreign clients in `tests/foreign`.
//!
//! It is under the target directory, and is created again when the list of packages or Python changes.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Row;
use super::find;
use super::install::{self, Packages};
use super::server::Installed;

/// Name on the command line.
pub(super) const NAME: &str = "python";

/// List of packages, from the root of the workspace.
const REQUIREMENTS: &str = "tests/foreign/requirements.txt";

const PROGRAM: &str = "python3";

/// Minimum version for the packages in the list.
const MIN_VERSION: (u32, u32) = (3, 11);

const PACKAGES: Packages = Packages {
    what: "Python 3.11 or later with the modules venv and ensurepip",
    debian: &["python3-venv"],
    fedora: &["python3-pip"],
    homebrew: &["python"],
};

/// Marker file of a complete environment.
const READY: &str = "ready";

/// Creates the environment if needed, and returns its path and variables.
pub(super) fn prepare(root: &Path, target: &Path) -> Result<Row> {
    let list = root.join(REQUIREMENTS);
    let requirements =
        fs::read_to_string(&list).with_context(|| format!("reading the packages in {}", list.display()))?;
    let python = installed()?;
    let environment = environment(&python, &requirements, &target.join(NAME))?;
    Ok(Row {
        server: NAME.to_owned(),
        version: python.version,
        address: environment.display().to_string(),
        variables: vec![("CRAWLWAY_TEST_PYTHON".to_owned(), program_of(&environment).display().to_string())],
        log: PathBuf::new(),
    })
}

fn installed() -> Result<Installed> {
    install::ensure_installed(NAME, find_python, || install::packages(&PACKAGES))
}

/// Complete environment with these packages in this folder, if there is one.
pub(super) fn find_environment(requirements: &str, folder: &Path) -> Option<PathBuf> {
    let environment = folder.join(name_of(&find_python()?, requirements));
    environment.join(READY).is_file().then_some(environment)
}

/// Environment with these packages in this folder, created if needed.
pub(super) fn make_environment(requirements: &str, folder: &Path) -> Result<PathBuf> {
    environment(&installed()?, requirements, folder)
}

/// Environment with these packages.
fn environment(python: &Installed, requirements: &str, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    // Concurrent runs would create the same environment.
    let lock = File::create(folder.join("lock")).context("creating a lock file")?;
    lock.lock().context("waiting for the lock of the environment")?;
    // Named by a hash of its content, so that a change of the list leaves an environment in use alone.
    let environment = folder.join(name_of(python, requirements));
    if environment.join(READY).is_file() && version_of(&program_of(&environment)).is_some() {
        return Ok(environment);
    }
    if environment.exists() {
        fs::remove_dir_all(&environment).with_context(|| format!("removing {}", environment.display()))?;
    }
    println!("installing Python packages with pip …");
    let start = Instant::now();
    run(Command::new(python.folder.join(PROGRAM)).args(["-m", "venv"]).arg(&environment))?;
    let list = environment.join("requirements.txt");
    fs::write(&list, requirements).with_context(|| format!("writing {}", list.display()))?;
    let pip = || {
        let mut pip = Command::new(program_of(&environment));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]);
        pip
    };
    // Listed packages only, in exactly these versions; `pip check` finds missing dependencies.
    run(pip().args(["install", "--no-deps", "--quiet", "--requirement"]).arg(&list))?;
    run(pip().arg("check"))?;
    fs::write(environment.join(READY), "")?;
    println!("installed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(environment)
}

fn program_of(environment: &Path) -> PathBuf {
    environment.join("bin").join("python")
}

fn name_of(python: &Installed, requirements: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (&python.folder, &python.version, requirements).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Runs a command to its end; the error contains its output.
fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}:\n{}", output.status, text_of(&output));
    Ok(())
}

fn text_of(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    both.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join("\n")
}

/// First Python in a sufficient version that can create environments.
fn find_python() -> Option<Installed> {
    let folders = find::search_path(&["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]);
    find::find_in(&folders, PROGRAM, MIN_VERSION, |folder| {
        let program = folder.join(PROGRAM);
        version_of(&program).filter(|_| has_venv(&program))
    })
}

fn version_of(program: &Path) -> Option<String> {
    find::version_of(program, "Python ")
}

/// Whether the modules for virtual environments are installed; Debian has them in `python3-venv`.
fn has_venv(program: &Path) -> bool {
    let imported = Command::new(program).args(["-c", "import venv, ensurepip"]).stdin(Stdio::null()).output();
    imported.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// List without packages, which needs no network.
    const NO_PACKAGES: &str = "# nothing\n";

    #[test]
    fn an_environment_is_created_once_per_list() {
        let folder = tempfile::tempdir().unwrap();
        let python = installed().unwrap();
        let first = environment(&python, NO_PACKAGES, folder.path()).unwrap();
        fs::write(first.join("mark"), "").unwrap();
        assert_eq!(environment(&python, NO_PACKAGES, folder.path()).unwrap(), first);
        assert!(first.join("mark").exists(), "it was created again");

        fs::remove_file(first.join(READY)).unwrap();
        assert_eq!(environment(&python, NO_PACKAGES, folder.path()).unwrap(), first);
        assert!(!first.join("mark").exists(), "an incomplete environment is created again");
        assert_ne!(name_of(&python, NO_PACKAGES), name_of(&python, "# something else\n"));
    }

    #[test]
    fn an_error_contains_the_output_of_pip() {
        let folder = tempfile::tempdir().unwrap();
        let python = installed().unwrap();
        let unknown = "--no-index\ncrawlway-no-such-package==1.0\n";
        let error = environment(&python, unknown, folder.path()).unwrap_err().to_string();
        assert!(error.contains("No matching distribution found for crawlway-no-such-package"), "{error}");
        let environment = folder.path().join(name_of(&python, unknown));
        assert!(!environment.join(READY).exists(), "the next run tries again");
    }
}
