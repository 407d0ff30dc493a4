//! What the program says: results on standard output, for people or as JSON; warnings on standard error.

mod raw;
mod table;
mod wrap;

pub(crate) use raw::json_lines;
pub(crate) use table::{Cell, Column, Table};
pub(crate) use wrap::lines as wrapped;

use serde::Serialize;
use std::{
    env, fmt,
    io::{self, BufWriter, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether programs read what is said on standard error too.
static TELL_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// Standard output, and for whom it is.
pub(crate) struct Output {
    stdout: BufWriter<Box<dyn Write + Send>>,
    json: bool,
    colours: bool,
    /// How many columns there are; any number if it is not a terminal.
    columns: Option<usize>,
}

/// How a piece of text stands out, where there are colours.
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
        TELL_PROGRAMS.store(json, Ordering::Relaxed);
        let stdout: Box<dyn Write + Send> = if json { json_lines() } else { Box::new(stdout) };
        Self { stdout: BufWriter::new(stdout), json, colours, columns }
    }

    /// Says everything on standard error from here on, since something else is written to standard output.
    pub(crate) fn leave_standard_output(&mut self) {
        self.stdout = BufWriter::new(Box::new(io::stderr()));
        self.colours = false;
        self.columns = None;
    }

    /// Whether a program reads.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes text that ends where it ends.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes()).map_err(unwritten)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stdout, "{text}").map_err(unwritten)
    }

    /// Writes a line that stands above what follows.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        let painted = table::painted(text, Tone::Heading, self.colours);
        self.line(&painted)
    }

    /// Writes text as one paragraph that is indented by so much, in as many lines as the terminal needs for it.
    pub(crate) fn paragraph(&mut self, indent: usize, text: &str) -> io::Result<()> {
        let space = " ".repeat(indent);
        let Some(columns) = self.columns else { return self.line(&format!("{space}{text}")) };
        for line in wrap::lines(text, columns.saturating_sub(indent).max(wrap::NARROWEST)) {
            self.line(&format!("{space}{line}"))?;
        }
        Ok(())
    }

    /// Writes a table, with its heading also when it has no rows.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(&mut self.stdout, self.colours).map_err(unwritten)
    }

    /// Text of a snippet: what is marked stands out where there are colours, and the HTML is taken back.
    pub(crate) fn marked(&self, snippet: &str) -> String {
        let (on, off) = if self.colours { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        let plain = snippet.replace("<mark>", on).replace("</mark>", off);
        let characters =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")];
        characters.into_iter().fold(plain, |text, (escaped, character)| text.replace(escaped, character))
    }

    /// Writes a value for programs.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value).map_err(|error| unwritten(error.into()))?;
        writeln!(self.stdout).map_err(unwritten)
    }

    /// Makes sure that all of it is out.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush().map_err(unwritten)
    }
}

fn unwritten(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

/// Says on standard error, as JSON from here on, what is wrong. For what is found out before anything else is known.
pub(crate) fn tell_programs() {
    TELL_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Says on standard error that something deserves attention, although it was done.
pub(crate) fn warn(text: &str) {
    tell("warning", text);
}

/// Says on standard error what went wrong.
pub(crate) fn error(text: &str) {
    tell("error", text);
}

/// Says on standard error what went wrong, followed by what caused it.
pub(crate) fn error_with_causes(chain: &[String]) {
    match chain {
        [text, causes @ ..] if !causes.is_empty() && TELL_PROGRAMS.load(Ordering::Relaxed) => {
            let told = serde_json::json!({ "error": text, "causes": causes });
            let _ = writeln!(io::stderr(), "{}", raw::escaped(&told.to_string()));
        }
        chain => error(&chain.join("\n  caused by: ")),
    }
}

/// Asks on standard error; only a clear yes on standard input is one.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whether somebody is there to be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Text from elsewhere on one line of a terminal: control characters, with which it could move the cursor or
/// pretend to be output of ours, are escaped.
pub(crate) fn one_line(text: &str) -> String {
    escape(text, |c| c.is_control())
}

/// The same for text that may have lines.
pub(crate) fn many_lines(text: &str) -> String {
    escape(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// Marks that change the direction of the text around them can hide what it says.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, unsafe_character: impl Fn(char) -> bool) -> String {
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

fn tell(kind: &str, text: &str) {
    // Nobody could be told that standard error is closed.
    let _ = if TELL_PROGRAMS.load(Ordering::Relaxed) {
        writeln!(io::stderr(), "{}", raw::escaped(&serde_json::json!({ kind: text }).to_string()))
    } else {
        writeln!(io::stderr(), "{kind}: {text}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_cannot_drive_the_terminal() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\u{202e}é"), "a\\u{1b}[2Jb\\nc\\u{202e}é");
        assert_eq!(many_lines("a\nb\r\u{9b}c\t"), "a\nb\\r\\u{9b}c\t");
    }
}
