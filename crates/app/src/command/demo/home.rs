//! Where the demo keeps its data: in a directory that goes with it, or in one that somebody asked for.

use crate::failure::UsageError;
use anyhow::{Context, bail};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A data directory that was empty.
#[derive(Debug)]
pub(super) enum Home {
    /// Removed at the end. A SIGKILL leaves it behind.
    Temporary(TempDir),
    /// Kept.
    Kept(PathBuf),
}

impl Home {
    /// The directory that was asked for, which must be empty or new, since the demo is compared with what it must find
    /// and paces itself for hosts of its own; or a temporary one.
    pub(super) fn new(asked_for: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = asked_for else {
            let made = tempfile::Builder::new().prefix("crawlway-demo-").tempdir();
            return Ok(Self::Temporary(
                made.context("cannot make a temporary directory; name one with --data")?,
            ));
        };
        match fs::read_dir(directory) {
            Ok(mut files) => {
                if files.next().is_some() {
                    bail!(UsageError(format!(
                        "`{}` is not empty, and the demo begins with nothing; name a new directory with --data, or leave \
                         it out",
                        directory.display()
                    )));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => bail!(UsageError(format!("cannot look at `{}`: {error}", directory.display()))),
        }
        // Other commands are to be told where it is, wherever they are run.
        let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Ok(Self::Kept(whole))
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

    /// Removes it, unless it is to be kept.
    pub(super) fn leave(self) -> anyhow::Result<()> {
        let Self::Temporary(directory) = self else { return Ok(()) };
        let path = directory.path().to_owned();
        directory.close().with_context(|| format!("cannot remove `{}`; remove it by hand", path.display()))
    }
}
