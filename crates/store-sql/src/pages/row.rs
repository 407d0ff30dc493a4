//! A page as a row, and the words it is found by.

use crate::{fault::Fault, link::Row, time::timestamp};
use crawlway_store::{IndexedPage, pages::words::words};

/// Stands before a domain.
pub(super) const DOMAIN: char = '@';
/// Stands before a word of the title.
pub(super) const TITLE: char = '.';
/// Stands before a word of the text.
pub(super) const TEXT: char = ',';

/// A longer name is no domain, and an index could not take it.
const LONGEST_DOMAIN: usize = 255;

/// What of a page the database searches.
pub(super) struct Searched {
    pub(super) head: String,
    pub(super) head_words: u64,
    pub(super) body: String,
    pub(super) body_words: u64,
}

impl Searched {
    pub(super) fn of(page: &IndexedPage) -> Self {
        let mut head = String::with_capacity(page.title.len() + 64);
        // What cannot be a piece of its own is no name that anybody can search for.
        let domains = page.domains().filter(|domain| {
            domain.len() <= LONGEST_DOMAIN && !domain.contains(|c: char| c.is_whitespace() || c == '\0')
        });
        domains.for_each(|domain| piece(DOMAIN, domain, &mut head));
        let head_words = pieces(TITLE, &page.title, &mut head);
        let mut body = String::with_capacity(page.text.len() + page.text.len() / 4);
        let body_words = pieces(TEXT, &page.text, &mut body);
        Self { head, head_words, body, body_words }
    }
}

fn pieces(sign: char, text: &str, column: &mut String) -> u64 {
    let (mut words, mut word, mut many) = (words(text), String::new(), 0);
    while words.next_into(&mut word).is_some() {
        piece(sign, &word, column);
        many += 1;
    }
    many
}

/// Adds a word as it stands in a column, and as a phrase looks for it.
pub(super) fn piece(sign: char, word: &str, column: &mut String) {
    column.push(sign);
    column.push_str(word);
    column.push(' ');
}

/// The columns that [`page`] reads.
macro_rules! columns {
    () => {
        "item, url, host, title, description, text, crawled_at, status_code, simhash"
    };
}
pub(super) use columns;

/// A statement that reads pages.
macro_rules! select {
    ($rest:expr) => {
        $crate::dialect::Sql::new(concat!("SELECT ", $crate::pages::row::columns!(), " ", $rest))
    };
}
pub(super) use select;

/// A page from what [`select!`] reads.
pub(super) fn page(row: &Row) -> Result<IndexedPage, Fault> {
    Ok(IndexedPage {
        item: row.text(0)?,
        url: row.text(1)?,
        host: row.text(2)?,
        title: row.text(3)?,
        description: row.opt_text(4)?,
        text: row.text(5)?,
        crawled_at: timestamp(row.int(6)?),
        status_code: u16::try_from(row.int(7)?).unwrap_or_default(),
        simhash: row.int(8)?.cast_unsigned(),
    })
}
