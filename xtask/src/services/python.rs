//! Python with the packages that foreign clients are written with, for tests that let such a client speak to us.
//!
//! It is no server: nothing runs, and what is installed stays. A virtual environment under the target directory is made
//! once for a list of packages and a Python, and used until one of them changes.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs::{self, File};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Row;
use super::install::{self, Packages};

/// What it is called on the command line.
pub(super) const NAME: &str = "python";

/// The list of packages, from the root of the workspace.
const REQUIREMENTS: &str = "tests/foreign/requirements.txt";

/// The oldest that the packages in the list run on.
const OLDEST: (u32, u32) = (3, 11);

const PACKAGES: Packages = Packages {
    what: "Python 3.11 or later with the modules venv and ensurepip",
    debian: &["python3-venv"],
    fedora: &["python3-pip"],
    homebrew: &["python"],
};

/// Written last, so that an environment without it is one that was never finished.
const READY: &str = "ready";

/// A Python that can make virtual environments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Python {
    program: PathBuf,
    version: String,
}

/// Makes sure that there is an environment with the packages in the list, and says where.
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

fn installed() -> Result<Python> {
    install::make_sure(NAME, find, || install::packages(&PACKAGES))
}

/// The environment with these packages, made if it is not there.
fn environment(python: &Python, requirements: &str, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    // One at a time: two runs that begin together would make the same one.
    let turn = File::create(folder.join("lock")).context("creating a lock file")?;
    turn.lock().context("waiting for the turn to make an environment")?;
    // Named by what is in it: one that another run uses is left alone when the list changes.
    let environment = folder.join(name_of(python, requirements));
    if environment.join(READY).is_file() && version_of(&program_of(&environment)).is_some() {
        return Ok(environment);
    }
    if environment.exists() {
        fs::remove_dir_all(&environment).with_context(|| format!("removing {}", environment.display()))?;
    }
    println!("installing Python packages for foreign clients with pip …");
    let start = Instant::now();
    run(Command::new(&python.program).args(["-m", "venv"]).arg(&environment))?;
    let list = environment.join("requirements.txt");
    fs::write(&list, requirements).with_context(|| format!("writing {}", list.display()))?;
    let pip = || {
        let mut pip = Command::new(program_of(&environment));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]);
        pip
    };
    // Only what is listed, in exactly that version; what the list has forgotten is found by the check.
    run(pip().args(["install", "--no-deps", "--quiet", "--requirement"]).arg(&list))?;
    run(pip().arg("check"))?;
    fs::write(environment.join(READY), "")?;
    println!("installed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(environment)
}

fn program_of(environment: &Path) -> PathBuf {
    environment.join("bin").join("python")
}

fn name_of(python: &Python, requirements: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (&python.program, &python.version, requirements).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Runs it to its end. What it has said is shown if it fails.
fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}:\n{}", output.status, said(&output));
    Ok(())
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    both.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join("\n")
}

/// The first Python that is new enough and can make environments.
fn find() -> Option<Python> {
    let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let others = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    let folders = path.unwrap_or_default().into_iter().chain(others);
    folders.map(|folder| folder.join("python3")).filter(|program| program.is_file()).find_map(|program| {
        let version = version_of(&program)?;
        (is_new_enough(&version) && makes_environments(&program)).then_some(Python { program, version })
    })
}

/// `3.11.7` of `Python 3.11.7`.
fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| said.trim().strip_prefix("Python ").map(str::to_owned))?
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

/// Debian has Python without the second module unless `python3-venv` is installed.
fn makes_environments(program: &Path) -> bool {
    let looked = Command::new(program).args(["-c", "import venv, ensurepip"]).stdin(Stdio::null()).output();
    looked.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list without packages needs no network.
    const NOTHING: &str = "# nothing\n";

    #[test]
    fn an_environment_is_made_once_for_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let python = installed().unwrap();
        let first = environment(&python, NOTHING, folder.path()).unwrap();
        fs::write(first.join("mark"), "").unwrap();
        assert_eq!(environment(&python, NOTHING, folder.path()).unwrap(), first);
        assert!(first.join("mark").exists(), "it was made again");

        fs::remove_file(first.join(READY)).unwrap();
        assert_eq!(environment(&python, NOTHING, folder.path()).unwrap(), first);
        assert!(!first.join("mark").exists(), "one that was never finished is made again");
        assert_ne!(name_of(&python, NOTHING), name_of(&python, "# something else\n"));
    }

    #[test]
    fn what_pip_says_is_shown_when_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        let python = installed().unwrap();
        let unknown = "--no-index\ncrawlway-no-such-package==1.0\n";
        let error = environment(&python, unknown, folder.path()).unwrap_err().to_string();
        assert!(error.contains("No matching distribution found for crawlway-no-such-package"), "{error}");
        let environment = folder.path().join(name_of(&python, unknown));
        assert!(!environment.join(READY).exists(), "and it is tried again the next time");
    }

    #[test]
    fn old_versions_are_known_by_their_numbers() {
        assert!(is_new_enough("3.11.0") && is_new_enough("3.12.7") && is_new_enough("4.0.0"));
        assert!(!is_new_enough("3.10.18") && !is_new_enough("2.7.18") && !is_new_enough("rubbish"));
    }
}
