//! Content processing: URL normalisation, charset detection, main-content extraction and SimHash.
//!
//! Everything is pure: no I/O, no clock, no global state, and a deterministic output. No input causes a panic, and time
//! and memory are linear in the input.
//!
//! - [`url`]: URL normalisation.
//! - [`charset`]: charset detection and decoding.
//! - [`html`]: title, main text, links and metadata of a page.
//! - [`simhash`]: fingerprints of near-duplicates.

pub mod charset;
pub mod html;
pub mod simhash;
pub mod url;

pub use self::html::{Page, ParseOptions, index_text, parse, parse_bytes};
pub use self::url::{NormalUrl, UrlError, UrlOptions};
