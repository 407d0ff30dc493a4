//! Text tables: aligned columns, two spaces apart.

use super::{Tone, one_line};
use std::io::{self, Write};

/// Table with a heading.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Title and alignment of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    right: bool,
}

/// Cell of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Column {
    /// Left-aligned, for words.
    pub(crate) const fn left(title: &'static str) -> Self {
        Self { title, right: false }
    }

    /// Right-aligned, for numbers.
    pub(crate) const fn right(title: &'static str) -> Self {
        Self { title, right: true }
    }
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: one_line(&text.into()), tone: Tone::Plain }
    }

    /// Text cut to this many characters.
    pub(crate) fn cut(text: &str, width: usize) -> Self {
        let mut shown: String = text.chars().take(width + 1).collect();
        if shown.chars().count() > width {
            shown = shown.chars().take(width.saturating_sub(1)).chain(['…']).collect();
        }
        Self::new(shown)
    }

    /// Number; zero is faint.
    pub(crate) fn number(number: u64) -> Self {
        let tone = if number == 0 { Tone::Faint } else { Tone::Plain };
        Self { text: number.to_string(), tone }
    }

    /// Cell without a value.
    pub(crate) fn none() -> Self {
        Self { text: "-".to_owned(), tone: Tone::Faint }
    }

    pub(crate) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    pub(super) fn write(&self, to: &mut impl Write, colours: bool) -> io::Result<()> {
        let heading: Vec<Cell> =
            self.columns.iter().map(|column| Cell::new(column.title).tone(Tone::Heading)).collect();
        let lines: Vec<&Vec<Cell>> = std::iter::once(&heading).chain(&self.rows).collect();
        let widest = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(Cell::width).max();
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| widest(column).unwrap_or_default()).collect();
        for line in lines {
            let mut written = String::new();
            let mut spaces = 0;
            for ((cell, column), width) in line.iter().zip(&self.columns).zip(&widths) {
                let padding = width - cell.width();
                let (before, after) = if column.right { (padding, 0) } else { (0, padding) };
                written.push_str(&" ".repeat(spaces + before));
                written.push_str(&painted(&cell.text, cell.tone, colours));
                // Written only before the next cell, so that no line ends in spaces.
                spaces = after + 2;
            }
            writeln!(to, "{written}")?;
        }
        Ok(())
    }
}

pub(super) fn painted(text: &str, tone: Tone, colours: bool) -> String {
    let code = match tone {
        Tone::Heading => "1",
        Tone::Faint => "2",
        Tone::Notice => "33",
        Tone::Alarm => "31",
        Tone::Plain => return text.to_owned(),
    };
    if colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, colours: bool) -> String {
        let mut bytes = Vec::new();
        table.write(&mut bytes, colours).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_lines_end_where_their_text_ends() {
        let mut table = Table::new([Column::left("name"), Column::right("n"), Column::left("note")]);
        table.row([Cell::new("é"), Cell::number(1000), Cell::new("")]);
        table.row([Cell::new("longer"), Cell::number(0), Cell::cut("much too long", 6)]);
        assert_eq!(written(&table, false), "name       n  note\né       1000  \nlonger     0  much …\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = Table::new([Column::left("a"), Column::left("b")]);
        table.row([Cell::new("x").tone(Tone::Alarm), Cell::new("y")]);
        assert_eq!(
            written(&table, true),
            "\u{1b}[1ma\u{1b}[0m  \u{1b}[1mb\u{1b}[0m\n\u{1b}[31mx\u{1b}[0m  y\n"
        );
    }
}
