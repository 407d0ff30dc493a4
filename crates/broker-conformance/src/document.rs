//! Comparison of `docs/guarantees.md` with the code.

use crawlway_broker::{Aspect, Guarantees, Support};

const DOCUMENT: &str = include_str!("../../../docs/guarantees.md");

/// Asserts that the broker's column in `docs/guarantees.md` agrees with its guarantees.
///
/// # Panics
/// If it does not.
pub fn assert_documented(guarantees: &Guarantees) {
    let from_head = DOCUMENT.lines().skip_while(|line| !line.starts_with("| aspect |"));
    let rows = from_head.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("| "));
    let mut table = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let head = table.next().expect("the document has a table");
    let column = head.iter().position(|cell| *cell == guarantees.broker);
    let column = column.unwrap_or_else(|| panic!("`{}` is none of {head:?}", guarantees.broker));
    let written: Vec<(String, &str)> = table
        .map(|cells| {
            assert_eq!(cells.len(), head.len(), "an aspect and a cell per broker: {cells:?}");
            let word = cells[column].trim_start_matches("**").split("**").next().unwrap_or_default();
            (cells[0].to_owned(), word)
        })
        .collect();
    let word = |aspect: &Aspect| match guarantees.of(*aspect) {
        Support::Native => "native",
        Support::Emulated { .. } => "emulated",
        Support::Refused { .. } => "refused",
    };
    let declared: Vec<(String, &str)> =
        Aspect::ALL.iter().map(|aspect| (aspect.to_string(), word(aspect))).collect();
    assert_eq!(written, declared, "the document and the code of {}", guarantees.broker);
}
