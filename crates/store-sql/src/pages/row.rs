//! A page as a row, and the tokens that it is found by.

use crate::{connection::Row, fault::Fault, time::timestamp};
use crawlway_store::{IndexedPage, pages::tokenizer::tokenize};

/// Prefixes of tokens.
pub(super) const DOMAIN: char = '@';
pub(super) const TITLE: char = '.';
pub(super) const TEXT: char = ',';

/// A longer name is no domain, and too long for an index.
const MAX_DOMAIN: usize = 255;

/// The searchable columns of a page.
pub(super) struct Tokens {
    pub(super) head: String,
    pub(super) head_words: u64,
    pub(super) body: String,
    pub(super) body_words: u64,
}

impl Tokens {
    pub(super) fn of(page: &IndexedPage) -> Self {
        let mut head = String::with_capacity(page.title.len() + 64);
        // A name with white space is no token.
        let domains = page.domains().filter(|domain| {
            domain.len() <= MAX_DOMAIN && !domain.contains(|c: char| c.is_whitespace() || c == '\0')
        });
        domains.for_each(|domain| push_token(DOMAIN, domain, &mut head));
        let head_words = push_words(TITLE, &page.title, &mut head);
        let mut body = String::with_capacity(page.text.len() + page.text.len() / 4);
        let body_words = push_words(TEXT, &page.text, &mut body);
        Self { head, head_words, body, body_words }
    }
}

fn push_words(prefix: char, text: &str, column: &mut String) -> u64 {
    let (mut words, mut word, mut count) = (tokenize(text), String::new(), 0);
    while words.next_into(&mut word).is_some() {
        push_token(prefix, &word, column);
        count += 1;
    }
    count
}

/// Appends a token.
pub(super) fn push_token(prefix: char, word: &str, column: &mut String) {
    column.push(prefix);
    column.push_str(word);
    column.push(' ');
}

/// Columns for [`page`].
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
