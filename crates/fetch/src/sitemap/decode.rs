//! From what was sent to text: decompression within the limit, and the charset.

use super::{MAX_BYTES, Problem};
use encoding_rs::{Encoding, UTF_8};
use flate2::read::MultiGzDecoder;
use std::{borrow::Cow, io::Read};

/// How far into a document its XML declaration can reach.
const DECLARATION_BYTES: usize = 256;

pub(super) fn decompress<'a>(bytes: &'a [u8], problems: &mut Vec<Problem>) -> Cow<'a, [u8]> {
    let sent = within_limit(bytes, problems);
    if !sent.starts_with(&[0x1F, 0x8B]) {
        return Cow::Borrowed(sent);
    }
    let mut content = Vec::new();
    // One byte more than may count, to learn whether there is more. A bomb is never unpacked further.
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = MultiGzDecoder::new(sent).take(limit).read_to_end(&mut content) {
        problems.push(Problem::BrokenGzip { reason: error.to_string() });
    }
    let length = within_limit(&content, problems).len();
    content.truncate(length);
    Cow::Owned(content)
}

fn within_limit<'a>(bytes: &'a [u8], problems: &mut Vec<Problem>) -> &'a [u8] {
    let Some(counting) = bytes.get(..MAX_BYTES).filter(|counting| counting.len() < bytes.len()) else {
        return bytes;
    };
    if !problems.contains(&Problem::TooLong) {
        problems.push(Problem::TooLong);
    }
    counting
}

/// Sitemaps are to be UTF-8, and servers put labels on them that are wrong more often than right, so a label
/// counts only for what is not UTF-8. A byte order mark counts before all else.
pub(super) fn text<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    let encoding = match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // The limit has cut the file, and its last character with it.
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

/// The encoding that an XML declaration names.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let start = String::from_utf8_lossy(start.trim_ascii_start());
    let declaration = start.strip_prefix("<?xml")?.split("?>").next()?;
    let (_, after) = declaration.split_once("encoding")?;
    let value = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    Encoding::for_label(value[1..].split(quote).next()?.as_bytes())
}
