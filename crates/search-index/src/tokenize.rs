//! Tantivy adapter of the tokenizer that all page indexes share.

use crawlway_store::pages::tokenizer::{TextTokenizer, tokenize};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Name under which it is registered.
pub(crate) const NAME: &str = "words";

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexWords;

impl Tokenizer for IndexWords {
    type TokenStream<'a> = WordStream<'a>;
    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { words: tokenize(text), token: Token::default() }
    }
}

pub(crate) struct WordStream<'a> {
    words: TextTokenizer<'a>,
    token: Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(place) = self.words.next_into(&mut self.token.text) else { return false };
        self.token.offset_from = place.start;
        self.token.offset_to = place.end;
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
