//! Schema of the index, and conversion of pages to documents and back.

use crate::tokenize;
use crawlway_store::{IndexedPage, Timestamp};
use tantivy::{
    Index, TantivyDocument,
    schema::{
        FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value,
        document::CompactDocValue,
    },
    tokenizer::TextAnalyzer,
};

/// Version of the index; counts up with every change of its fields or of the tokenizer.
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    /// The URL as one term, by which a page is replaced, and as a column, which orders equal scores.
    pub(crate) url: Field,
    pub(crate) title: Field,
    pub(crate) text: Field,
    /// The host and each parent domain, as terms.
    pub(crate) domains: Field,
    pub(crate) crawled_at: Field,
    pub(crate) simhash: Field,
    item: Field,
    host: Field,
    description: Field,
    status_code: Field,
}

pub(crate) const URL: &str = "url";
pub(crate) const CRAWLED_AT: &str = "crawled_at";
pub(crate) const SIMHASH: &str = "simhash";

pub(crate) fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let name = || {
        TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic)
    };
    let words = TextFieldIndexing::default()
        .set_tokenizer(tokenize::NAME)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let words = TextOptions::default().set_indexing_options(words).set_stored();
    let url = TextOptions::default().set_indexing_options(name()).set_stored().set_fast("raw");
    let fields = Fields {
        url: builder.add_text_field(URL, url),
        title: builder.add_text_field("title", words.clone()),
        text: builder.add_text_field("text", words),
        domains: builder.add_text_field("domains", TextOptions::default().set_indexing_options(name())),
        crawled_at: builder.add_u64_field(CRAWLED_AT, STORED | FAST),
        simhash: builder.add_u64_field(SIMHASH, STORED | FAST),
        item: builder.add_text_field("item", STORED),
        host: builder.add_text_field("host", STORED),
        description: builder.add_text_field("description", STORED),
        status_code: builder.add_u64_field("status_code", STORED),
    };
    (builder.build(), fields)
}

pub(crate) fn register_tokenizer(index: &Index) {
    index.tokenizers().register(tokenize::NAME, TextAnalyzer::from(tokenize::IndexWords));
}

pub(crate) fn to_document(fields: &Fields, page: &IndexedPage) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_text(fields.url, &page.url);
    document.add_text(fields.title, &page.title);
    document.add_text(fields.text, &page.text);
    for domain in page.domains() {
        document.add_text(fields.domains, domain);
    }
    document.add_u64(fields.crawled_at, page.crawled_at.as_millis());
    document.add_u64(fields.simhash, page.simhash);
    document.add_text(fields.item, &page.item);
    document.add_text(fields.host, &page.host);
    if let Some(description) = &page.description {
        document.add_text(fields.description, description);
    }
    document.add_u64(fields.status_code, u64::from(page.status_code));
    document
}

/// The page of a stored document, by field names, so that documents of an older schema can be read as well.
pub(crate) fn to_page(schema: &Schema, document: &TantivyDocument) -> IndexedPage {
    let value = |name: &str| -> Option<CompactDocValue<'_>> {
        schema.get_field(name).ok().and_then(|field| document.get_first(field))
    };
    let text = |name: &str| value(name).and_then(|value| value.as_str().map(str::to_owned));
    let number = |name: &str| value(name).and_then(|value| value.as_u64()).unwrap_or_default();
    IndexedPage {
        item: text("item").unwrap_or_default(),
        url: text(URL).unwrap_or_default(),
        host: text("host").unwrap_or_default(),
        title: text("title").unwrap_or_default(),
        description: text("description"),
        text: text("text").unwrap_or_default(),
        crawled_at: Timestamp::from_millis(number(CRAWLED_AT)),
        status_code: u16::try_from(number("status_code")).unwrap_or_default(),
        simhash: number(SIMHASH),
    }
}
