//! What a page is made of: its URL in normal form, its text, its links, its fingerprint.
//!
//! Everything here is pure: no I/O, no clock, no global state, and the same input gives the same
//! output for ever. No input makes it panic, and time and memory grow linearly with the input.
//!
//! - [`url`]: the one URL normal form.
//! - [`charset`]: bytes to text.
//! - [`html`]: text to title, main text, links and metadata.
//! - [`simhash`]: a fingerprint that moves little when the text changes little.

pub mod charset;
pub mod html;
pub mod simhash;
pub mod url;

pub use self::html::{Page, ParseOptions, index_text, parse, parse_bytes};
pub use self::url::{NormalUrl, UrlError, UrlOptions};
