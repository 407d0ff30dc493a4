//! `--out`: JSON lines output instead of the index.

use crate::{failure::UsageError, output::json_stdout, permissions};
use crawlway_flows::search::Export;
use std::{convert::Infallible, fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

/// File, or `-` for standard output.
#[derive(Debug, Clone)]
pub(super) struct Out(PathBuf);

impl Out {
    pub(super) fn is_standard_output(&self) -> bool {
        self.0.as_os_str() == "-"
    }

    /// Opens the output for appending.
    pub(super) fn open(&self, recrawl_after: Duration) -> Result<Arc<Export>, UsageError> {
        if self.is_standard_output() {
            return Ok(Arc::new(Export::to_stream("standard output", json_stdout(), recrawl_after)));
        }
        let opened = permissions::with_user_umask(|| Export::open(&self.0, recrawl_after));
        opened.map(Arc::new).map_err(|error| UsageError(format!("--out: {error}")))
    }
}

impl FromStr for Out {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_standard_output() { f.write_str("standard output") } else { self.0.display().fmt(f) }
    }
}
