//! The URLs that a command is given: as arguments, on standard input (`-`) and in files (`--from`), one per line.

use crate::{failure::UsageError, output::one_line};
use crawlway_content::{UrlOptions, url::normalise};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// What stands for standard input.
const STANDARD_INPUT: &str = "-";
/// How many bad lines are named.
const MOST_NAMED: usize = 20;
/// The largest list that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// A URL, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) url: String,
    /// `urls.txt, line 3`; none of an argument.
    place: Option<String>,
}

impl Given {
    /// What is wrong with it, after where it was given.
    pub(crate) fn problem(&self, problem: &str) -> String {
        match &self.place {
            Some(place) => format!("{place}: {problem}"),
            None => problem.to_owned(),
        }
    }
}

/// All URLs in order: the arguments, with what standard input has in the place of `-`, then those of the files. Of lists, blank
/// lines and lines that begin with `#` are ignored, and every line that is no URL is named.
pub(super) fn urls(arguments: Vec<String>, files: &[PathBuf]) -> Result<Vec<Given>, UsageError> {
    let mut given = Vec::new();
    let mut bad = Vec::new();
    let mut input_was_read = false;
    for argument in arguments {
        if argument != STANDARD_INPUT {
            given.push(Given { url: argument, place: None });
        } else if !std::mem::replace(&mut input_was_read, true) {
            take_lines(
                "standard input",
                &text_of("standard input", io::stdin().lock())?,
                &mut given,
                &mut bad,
            );
        }
    }
    for file in files {
        let name = one_line(&file.display().to_string());
        if file.as_path() == Path::new(STANDARD_INPUT) {
            return Err(UsageError(
                "--from takes a file; write `-` in the place of a URL for standard input".to_owned(),
            ));
        }
        let opened = fs::File::open(file)
            .map_err(|error| UsageError(format!("--from: `{name}` cannot be opened: {error}")))?;
        take_lines(&name, &text_of(&name, opened)?, &mut given, &mut bad);
    }
    refuse_bad_lines(&bad)?;
    if given.is_empty() {
        return Err(UsageError("there is no URL to begin with; lists have one URL per line".to_owned()));
    }
    Ok(given)
}

fn text_of(name: &str, list: impl Read) -> Result<String, UsageError> {
    let mut bytes = Vec::new();
    let read = list.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| UsageError(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(UsageError(format!("{name} is larger than {} MiB; split it", LARGEST >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        UsageError(format!("{name}, line {line}: expected UTF-8"))
    })
}

fn take_lines(name: &str, text: &str, given: &mut Vec<Given>, bad: &mut Vec<String>) {
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let one = Given { url: line.to_owned(), place: Some(format!("{name}, line {number}")) };
        match normalise(line, &UrlOptions::default()) {
            Ok(_) => given.push(one),
            Err(error) => bad.push(one.problem(&format!("`{}`: {error}", one_line(line)))),
        }
    }
}

/// Nothing is done unless all lines can be read.
pub(crate) fn refuse_bad_lines(bad: &[String]) -> Result<(), UsageError> {
    if bad.is_empty() {
        return Ok(());
    }
    let mut told = bad.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join("\n  ");
    if bad.len() > MOST_NAMED {
        told.push_str(&format!("\n  and {} more", bad.len() - MOST_NAMED));
    }
    Err(UsageError(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut given, mut bad) = (Vec::new(), Vec::new());
        take_lines("list", text, &mut given, &mut bad);
        (given.into_iter().map(|given| given.url).collect(), bad)
    }

    #[test]
    fn blank_lines_and_comments_are_no_urls_and_bad_lines_are_named() {
        let (given, bad) = lines(
            "\u{feff}# mine\r\n\r\n  https://a.example/x \nftp://b.example/\n\t#no\nhttps://c.example/#d\nnonsense",
        );
        assert_eq!(given, ["https://a.example/x", "https://c.example/#d"]);
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(bad[0].starts_with("list, line 4: `ftp://b.example/`: "), "{bad:?}");
        assert!(bad[1].starts_with("list, line 7: `nonsense`: "), "{bad:?}");
    }

    #[test]
    fn a_list_without_a_url_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let empty = urls(Vec::new(), &[file.path().to_owned()]).unwrap_err();
        assert!(empty.0.contains("no URL to begin with"), "{empty}");
        fs::write(file.path(), b"https://a.example/\n\xff\n").unwrap();
        let binary = urls(Vec::new(), &[file.path().to_owned()]).unwrap_err();
        assert!(binary.0.ends_with("line 2: expected UTF-8"), "{binary}");
    }
}
