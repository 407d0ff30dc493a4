//! Wrapping of text to the width of a terminal: after words, and inside of words that are too long.

use console::measure_text_width;

/// Lower bound of the width; a narrower terminal wraps by itself.
pub(super) const MIN_WIDTH: usize = 20;

/// Lines of a text. Colours have no width, and wide characters count as two columns.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let needed = measure_text_width(word.trim_end());
        if used > 0 && used + needed > width {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        if needed <= width {
            line.push_str(word);
            used += measure_text_width(word);
            continue;
        }
        // As in scripts without spaces.
        for character in word.chars() {
            line.push(character);
            if measure_text_width(&line) > width {
                line.pop();
                lines.push(std::mem::replace(&mut line, character.to_string()));
            }
        }
        used = measure_text_width(&line);
    }
    if !line.trim_end().is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_after_words_and_inside_long_words() {
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("灯台の階段で", 4), ["灯台", "の階", "段で"]);
        assert_eq!(lines("a 灯台の", 4), ["a", "灯台", "の"]);
        assert_eq!(lines("\u{1b}[1mone\u{1b}[0m two", 7), ["\u{1b}[1mone\u{1b}[0m two"]);
        assert!(lines("", 10).is_empty());
    }
}
