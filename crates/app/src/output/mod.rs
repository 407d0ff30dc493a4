//! Output of the program: results on standard output as text or JSON, errors and warnings on standard error.

mod escape;
mod table;
mod wrap;

pub(crate) use escape::{json_stdout, shell_word};
pub(crate) use table::{Cell, Column, Table};
pub(crate) use wrap::lines as wrapped;

use serde::Serialize;
use std::{
    env, fmt,
    io::{self, BufWriter, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether errors and warnings are JSON lines.
static JSON_ERRORS: AtomicBool = AtomicBool::new(false);

/// Standard output, as text or JSON.
pub(crate) struct Output {
    stdout: BufWriter<Box<dyn Write + Send>>,
    json: bool,
    colours: bool,
    /// Width of the terminal, if it is one.
    columns: Option<usize>,
    /// Flags that a further command must repeat, with their values.
    flags: Vec<String>,
}

/// Emphasis of text on a terminal with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Heading,
    Faint,
    Notice,
    Alarm,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("json", &self.json).finish_non_exhaustive()
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let stdout = io::stdout();
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colours = stdout.is_terminal() && !refused && !dumb;
        let columns = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let columns = columns.filter(|columns| *columns > 0 && stdout.is_terminal());
        JSON_ERRORS.store(json, Ordering::Relaxed);
        let stdout: Box<dyn Write + Send> = if json { json_stdout() } else { Box::new(stdout) };
        Self { stdout: BufWriter::new(stdout), json, colours, columns, flags: Vec::new() }
    }

    /// Writes to standard error from now on, since standard output is used for data.
    pub(crate) fn redirect_to_stderr(&mut self) {
        self.stdout = BufWriter::new(Box::new(io::stderr()));
        self.colours = false;
        self.columns = None;
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Repeats a flag in the commands that the output proposes.
    pub(crate) fn repeat_flag(&mut self, name: &str, value: &str) {
        self.flags.extend([name.to_owned(), value.to_owned()]);
    }

    /// Command line to propose, for a shell.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let flags = self.flags.iter().map(String::as_str);
        let words = ["crawlway"].into_iter().chain(arguments.iter().copied()).chain(flags);
        words.map(|word| shell_word(&one_line(word))).collect::<Vec<_>>().join(" ")
    }

    /// Writes text without a line break.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes()).map_err(write_error)
    }

    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stdout, "{text}").map_err(write_error)
    }

    /// Writes a heading.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        let painted = table::painted(text, Tone::Heading, self.colours);
        self.line(&painted)
    }

    /// Writes an indented paragraph, wrapped to the width of the terminal.
    pub(crate) fn paragraph(&mut self, indent: usize, text: &str) -> io::Result<()> {
        let space = " ".repeat(indent);
        let Some(columns) = self.columns else { return self.line(&format!("{space}{text}")) };
        for line in wrap::lines(text, columns.saturating_sub(indent).max(wrap::MIN_WIDTH)) {
            self.line(&format!("{space}{line}"))?;
        }
        Ok(())
    }

    /// Writes a table.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(&mut self.stdout, self.colours).map_err(write_error)
    }

    /// Snippet without HTML, with its marked words in bold on a terminal with colours.
    pub(crate) fn marked(&self, snippet: &str) -> String {
        let (on, off) = if self.colours { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        let plain = snippet.replace("<mark>", on).replace("</mark>", off);
        let characters =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")];
        characters.into_iter().fold(plain, |text, (escaped, character)| text.replace(escaped, character))
    }

    /// Writes a value as JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value).map_err(|error| write_error(error.into()))?;
        writeln!(self.stdout).map_err(write_error)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush().map_err(write_error)
    }
}

fn write_error(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Writes errors as JSON from now on. For errors before an [`Output`] exists.
pub(crate) fn use_json_for_errors() {
    JSON_ERRORS.store(true, Ordering::Relaxed);
}

/// Writes a warning to standard error.
pub(crate) fn warn(text: &str) {
    write_message("warning", text);
}

/// Writes an error to standard error.
pub(crate) fn error(text: &str) {
    write_message("error", text);
}

/// Writes an error with its causes to standard error.
pub(crate) fn error_with_causes(chain: &[String]) {
    match chain {
        [text, causes @ ..] if !causes.is_empty() && JSON_ERRORS.load(Ordering::Relaxed) => {
            let line = serde_json::json!({ "error": text, "causes": causes });
            let _ = writeln!(io::stderr(), "{}", escape::escaped_json(&line.to_string()));
        }
        chain => error(&chain.join("\n  caused by: ")),
    }
}

/// Asks on standard error; only `y` or `yes` on standard input confirms.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whether standard input and standard error are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Untrusted text on one line: control characters are escaped, so that it cannot move the cursor or imitate output of the
/// program.
pub(crate) fn one_line(text: &str) -> String {
    escape_text(text, |c| c.is_control())
}

/// Untrusted text that may have several lines.
pub(crate) fn many_lines(text: &str) -> String {
    escape_text(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// Bidirectional control characters, which can hide text.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape_text(text: &str, unsafe_character: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if unsafe_character(c) || reorders(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

fn write_message(kind: &str, text: &str) {
    // A closed standard error is ignored.
    let _ = if JSON_ERRORS.load(Ordering::Relaxed) {
        writeln!(io::stderr(), "{}", escape::escaped_json(&serde_json::json!({ kind: text }).to_string()))
    } else {
        writeln!(io::stderr(), "{kind}: {text}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_untrusted_text_are_escaped() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\u{202e}é"), "a\\u{1b}[2Jb\\nc\\u{202e}é");
        assert_eq!(many_lines("a\nb\r\u{9b}c\t"), "a\nb\\r\\u{9b}c\t");
    }
}
