//! Decompression within the limit, and charset detection.

use super::{MAX_BYTES, Problem};
use encoding_rs::{Encoding, UTF_8};
use flate2::read::MultiGzDecoder;
use std::{borrow::Cow, io::Read};

/// Maximum size of an XML declaration.
const MAX_DECLARATION_BYTES: usize = 256;

pub(super) fn decompress<'a>(bytes: &'a [u8], problems: &mut Vec<Problem>) -> Cow<'a, [u8]> {
    let sent = within_limit(bytes, problems);
    if !sent.starts_with(&[0x1F, 0x8B]) {
        return Cow::Borrowed(sent);
    }
    let mut content = Vec::new();
    // One byte more than the limit, to detect a longer file. A decompression bomb is not unpacked further.
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = MultiGzDecoder::new(sent).take(limit).read_to_end(&mut content) {
        problems.push(Problem::BrokenGzip { reason: error.to_string() });
    }
    let length = within_limit(&content, problems).len();
    content.truncate(length);
    Cow::Owned(content)
}

fn within_limit<'a>(bytes: &'a [u8], problems: &mut Vec<Problem>) -> &'a [u8] {
    let Some(start) = bytes.get(..MAX_BYTES).filter(|start| start.len() < bytes.len()) else {
        return bytes;
    };
    if !problems.contains(&Problem::TooLong) {
        problems.push(Problem::TooLong);
    }
    start
}

/// Decodes the text: by a byte order mark, as UTF-8 if valid, otherwise by the charset of the content type or the XML declaration.
/// Charset labels of UTF-8 files are ignored, since they are often wrong.
pub(super) fn text<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let encoding = match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // The size limit cut the last character.
        Err(error) if error.error_len().is_none() && bytes.len() == MAX_BYTES => UTF_8,
        Err(_) => content_type.and_then(charset).or_else(|| declared(bytes)).unwrap_or(UTF_8),
    };
    encoding.decode(bytes).0
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| Encoding::for_label(value.trim().trim_matches('"').as_bytes())).flatten()
    })
}

/// Encoding of an XML declaration.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(MAX_DECLARATION_BYTES)];
    let start = String::from_utf8_lossy(start.trim_ascii_start());
    let declaration = start.strip_prefix("<?xml")?.split("?>").next()?;
    let (_, after) = declaration.split_once("encoding")?;
    let value = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    Encoding::for_label(value[1..].split(quote).next()?.as_bytes())
}
