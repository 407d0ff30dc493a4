//! Bar chart of the crawlers as SVG, for light and dark pages.

use crate::table::Row;
use std::fmt::Write;

const WIDTH: usize = 760;
const LEFT: usize = 250;
const RIGHT: usize = 190;
const TOP: usize = 46;
const LINE: usize = 34;
const BAR: usize = 20;

/// SVG with pages per second and memory of each crawler.
pub(crate) fn svg(rows: &[Row], pages: usize) -> String {
    let height = TOP + rows.len() * LINE + 30;
    let max = rows.iter().map(|row| row.rate(pages)).fold(1.0, f64::max);
    let title = format!("Pages per second, {} pages from loopback", grouped(pages as f64));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n{STYLE}"
    );
    let _ = writeln!(out, "<text class=\"title\" x=\"0\" y=\"20\">{title}</text>");
    for (at, row) in rows.iter().enumerate() {
        let rate = row.rate(pages);
        let top = TOP + at * LINE;
        let middle = top + BAR / 2 + 5;
        let length = ((WIDTH - LEFT - RIGHT) as f64 * rate / max).max(1.0);
        let class = if row.is_crawlway { "crawlway" } else { "other" };
        let end = LEFT as f64 + length + 8.0;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\n\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"3\"/>\n\
             <text x=\"{end:.1}\" y=\"{middle}\">{}<tspan class=\"quiet\" dx=\"8\">{:.0} MB</tspan></text>\n",
            LEFT - 10,
            escaped(&row.name),
            grouped(rate),
            row.peak(),
        );
    }
    let _ = write!(
        out,
        "<text class=\"quiet\" x=\"0\" y=\"{}\">Searchable: fetched, parsed, queued durably and indexed. The \
         others write title and text to JSON lines.</text>\n</svg>\n",
        height - 8
    );
    out
}

const STYLE: &str = "<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.quiet { font-size: 12px; fill: #59636e; }
.crawlway { fill: #0969da; }
.other { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .quiet { fill: #9198a1; }
  .crawlway { fill: #4493f8; }
  .other { fill: #656c76; }
}
</style>
";

/// Integer with thousands separators.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([7.0, 999.0, 1000.4, 1_234_567.0].map(grouped), ["7", "999", "1,000", "1,234,567"]);
    }
}
