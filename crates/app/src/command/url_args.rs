//! URLs on the command line: arguments, standard input (`-`) and files (`--from`), one per line.

use crate::{failure::UsageError, output::one_line};
use crawlway_content::{UrlOptions, url::normalise};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Argument for standard input.
const STANDARD_INPUT: &str = "-";
/// Upper bound of the invalid lines that an error lists.
const MAX_LISTED: usize = 20;
/// Upper bound of a list, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// URL with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UrlArg {
    pub(crate) url: String,
    /// Such as `urls.txt, line 3`; none for an argument.
    source: Option<String>,
}

impl UrlArg {
    /// Error message with the source of the URL.
    pub(crate) fn problem(&self, problem: &str) -> String {
        match &self.source {
            Some(source) => format!("{source}: {problem}"),
            None => problem.to_owned(),
        }
    }
}

/// All URLs in order: the arguments, with the lines of standard input in place of `-`, then the lines of the files. Blank lines
/// and `#` comments are ignored. The error lists the lines that are not URLs.
pub(super) fn urls(arguments: Vec<String>, files: &[PathBuf]) -> Result<Vec<UrlArg>, UsageError> {
    let mut args = Vec::new();
    let mut invalid = Vec::new();
    let mut input_was_read = false;
    for argument in arguments {
        if argument != STANDARD_INPUT {
            args.push(UrlArg { url: argument, source: None });
        } else if !std::mem::replace(&mut input_was_read, true) {
            let text = read_text("standard input", io::stdin().lock())?;
            parse_lines("standard input", &text, &mut args, &mut invalid);
        }
    }
    for file in files {
        let name = one_line(&file.display().to_string());
        if file.as_path() == Path::new(STANDARD_INPUT) {
            return Err(UsageError("--from takes a file; for standard input use `-` as a URL".to_owned()));
        }
        let opened = fs::File::open(file)
            .map_err(|error| UsageError(format!("--from: `{name}` cannot be opened: {error}")))?;
        parse_lines(&name, &read_text(&name, opened)?, &mut args, &mut invalid);
    }
    refuse_invalid_lines(&invalid)?;
    if args.is_empty() {
        return Err(UsageError("no URL was given; lists have one URL per line".to_owned()));
    }
    Ok(args)
}

fn read_text(name: &str, list: impl Read) -> Result<String, UsageError> {
    let mut bytes = Vec::new();
    let read = list.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| UsageError(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(UsageError(format!("{name} is larger than {} MiB; split it", MAX_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        UsageError(format!("{name}, line {line}: expected UTF-8"))
    })
}

fn parse_lines(name: &str, text: &str, args: &mut Vec<UrlArg>, invalid: &mut Vec<String>) {
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let arg = UrlArg { url: line.to_owned(), source: Some(format!("{name}, line {number}")) };
        match normalise(line, &UrlOptions::default()) {
            Ok(_) => args.push(arg),
            Err(error) => invalid.push(arg.problem(&format!("`{}`: {error}", one_line(line)))),
        }
    }
}

/// Fails if any line is invalid, so that a list is submitted whole or not at all.
pub(crate) fn refuse_invalid_lines(invalid: &[String]) -> Result<(), UsageError> {
    if invalid.is_empty() {
        return Ok(());
    }
    let mut message = invalid.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join("\n  ");
    if invalid.len() > MAX_LISTED {
        message.push_str(&format!("\n  and {} more", invalid.len() - MAX_LISTED));
    }
    Err(UsageError(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_utf_8_with_an_optional_byte_order_mark_and_at_least_one_url() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |list: &[u8]| {
            fs::write(file.path(), list).unwrap();
            urls(Vec::new(), &[file.path().to_owned()]).map(|args| args.len()).map_err(|error| error.0)
        };
        assert_eq!(read(b"\xef\xbb\xbf# mine\nhttps://a.example/\n"), Ok(1));
        assert!(read(b"# mine\n").unwrap_err().contains("no URL was given"));
        assert!(read(b"https://a.example/\n\xff\n").unwrap_err().ends_with("line 2: expected UTF-8"));
    }
}
