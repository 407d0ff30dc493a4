//! Help text wrapped to the width of the terminal: paragraphs are re-wrapped, examples keep their columns, and no line is a
//! single short word.

use crate::output::wrapped;
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use console::Term;
use std::{
    env,
    ffi::OsString,
    io::{self, Write},
};

/// Upper bound, since longer lines are hard to read.
const MAX_WIDTH: usize = 100;
const MIN_WIDTH: usize = 40;
/// Longest word that must not be alone on the last line.
const MAX_ORPHAN: usize = 12;
/// Keeps two words on one line; printed as a space.
const NO_BREAK_SPACE: char = '\u{a0}';

/// Parses the command line. Help and usage errors are returned as an error, as clap does.
pub(crate) fn parse<T: CommandFactory + FromArgMatches>(
    line: impl IntoIterator<Item = OsString>,
) -> Result<T, clap::Error> {
    let mut matches = wrap_help(T::command(), width()).try_get_matches_from(line)?;
    T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut T::command()))
}

/// Prints help or a usage error. A closed pipe is ignored.
pub(crate) fn print(error: &clap::Error) {
    let (colours, mut to): (bool, Box<dyn Write>) = if error.use_stderr() {
        (console::colors_enabled_stderr(), Box::new(io::stderr()))
    } else {
        (console::colors_enabled(), Box::new(io::stdout()))
    };
    let text = error.render();
    let text = if colours { text.ansi().to_string() } else { text.to_string() };
    let _ = to.write_all(text.replace(NO_BREAK_SPACE, " ").as_bytes()).and_then(|()| to.flush());
}

/// Width of the terminal, or of COLUMNS if there is no terminal.
fn width() -> usize {
    let size = Term::stdout().size_checked().or_else(|| Term::stderr().size_checked());
    let columns = || env::var("COLUMNS").ok()?.parse().ok();
    let width = size.map(|(_, width)| usize::from(width)).or_else(columns).unwrap_or(MAX_WIDTH);
    width.clamp(MIN_WIDTH, MAX_WIDTH)
}

/// Wraps the help of a command and of its subcommands.
fn wrap_help(command: Command, width: usize) -> Command {
    let after = command.get_after_help().map(|text| fit(&text.to_string(), width));
    let about = command.get_about().and_then(|text| without_orphan(&text.to_string()));
    let mut command = command
        .term_width(width)
        .mut_args(|arg: Arg| match arg.get_help().and_then(|text| without_orphan(&text.to_string())) {
            Some(help) => arg.help(help),
            None => arg,
        })
        .mut_subcommands(|inner| wrap_help(inner, width));
    if let Some(about) = about {
        command = command.about(about);
    }
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

/// Text for clap to wrap, with a no-break space before a short last word.
fn without_orphan(text: &str) -> Option<String> {
    let (first, last) = text.rsplit_once(' ')?;
    (last.chars().count() <= MAX_ORPHAN).then(|| format!("{first}{NO_BREAK_SPACE}{last}"))
}

/// Wraps paragraphs, headings (which end with a colon) and examples (which are indented).
fn fit(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if is_prose {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(line);
        }
        if !is_prose || line.ends_with(':') {
            lines.extend(balanced(&std::mem::take(&mut paragraph), width));
        }
        if !is_prose {
            lines.extend(example(line, width));
        }
    }
    lines.extend(balanced(&paragraph, width));
    lines.join("\n")
}

/// Lines of a paragraph; the last is not a single short word.
fn balanced(text: &str, width: usize) -> Vec<String> {
    let mut lines = wrapped(text, width);
    if let [.., before, last] = lines.as_mut_slice()
        && !last.contains(' ')
        && last.chars().count() <= MAX_ORPHAN
        && let Some((rest, moved)) = before.rsplit_once(' ')
    {
        *last = format!("{moved} {last}");
        *before = rest.to_owned();
    }
    lines
}

/// Lines of an example. One that is too long is broken between its two columns, or else after a word.
fn example(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let deeper = " ".repeat(indent + 4);
    let below = |text: &str| {
        let room = width.saturating_sub(deeper.len());
        balanced(text.trim(), room).into_iter().map(|line| format!("{deeper}{line}")).collect::<Vec<_>>()
    };
    if let Some((command, meaning)) = text.split_once("  ") {
        let command = format!("{}{command}", " ".repeat(indent));
        return [vec![command], below(meaning)].concat();
    }
    let mut lines = balanced(text, width.saturating_sub(indent + 4));
    for (number, line) in lines.iter_mut().enumerate() {
        let margin = if number == 0 { &deeper[..indent] } else { deeper.as_str() };
        line.insert_str(0, margin);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_without_an_orphan() {
        let text = "one two three\nfour five six\n\nnext";
        assert_eq!(fit(text, 18), "one two three four\nfive six\n\nnext");
        assert_eq!(fit("one two three four", 14), "one two\nthree four");
    }

    #[test]
    fn examples_keep_their_shape_where_they_fit_and_are_broken_between_columns_where_not() {
        let text = "Examples:\n  run --fast  quickly\n  run";
        assert_eq!(fit(text, 40), text);
        assert_eq!(fit(text, 18), "Examples:\n  run --fast\n      quickly\n  run");
        assert_eq!(fit("  {aaaa, bbbb, cccc, dddd}", 20), "  {aaaa, bbbb,\n      cccc, dddd}");
    }
}
