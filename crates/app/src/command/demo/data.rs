//! Data directory of the demo: a temporary one, or the one of `--data`.

use crate::failure::UsageError;
use anyhow::{Context, bail};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Data directory that is empty at the start.
#[derive(Debug)]
pub(super) enum DataDirectory {
    /// Removed at the end. A SIGKILL leaves it behind.
    Temporary(TempDir),
    /// Named by `--data`, and kept.
    Kept(PathBuf),
}

impl DataDirectory {
    /// The directory of `--data`, which must be empty or new, since the demo's short delays are for its own hosts only;
    /// else a temporary one.
    pub(super) fn new(data_flag: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = data_flag else {
            let made = tempfile::Builder::new().prefix("crawlway-demo-").tempdir();
            return Ok(Self::Temporary(
                made.context("cannot create a temporary directory; name one with --data")?,
            ));
        };
        match fs::read_dir(directory) {
            Ok(mut files) => {
                if files.next().is_some() {
                    bail!(UsageError(format!(
                        "`{}` is not empty; the demo needs a new directory: name one with --data, or leave --data out",
                        directory.display()
                    )));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => bail!(UsageError(format!("cannot read `{}`: {error}", directory.display()))),
        }
        // Absolute, since the commands that the demo prints may be run in another working directory.
        Ok(Self::Kept(std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(directory) => directory,
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// Removes a temporary directory.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let Self::Temporary(directory) = self else { return Ok(()) };
        let path = directory.path().to_owned();
        directory.close().with_context(|| format!("cannot remove `{}`; remove it by hand", path.display()))
    }
}
