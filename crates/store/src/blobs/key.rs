//! Key of a blob, and the escaping of names in it.

use super::content::hex;
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// Maximum length of a key, that of S3.
pub const MAX_KEY_BYTES: usize = 1024;

/// Maximum length of a segment that was escaped, suffix included: file systems allow names of 255 bytes, and the directory
/// store adds a suffix of its own.
pub const MAX_SEGMENT_BYTES: usize = 200;

/// Number of bytes that a shortened segment keeps of its name.
const KEPT_BYTES: usize = 120;

/// Top-level folder of the blobs of test runs.
const TEST: &str = "test/";

/// Key of a blob: segments separated by slashes, of 1024 bytes at most. No segment is empty, `.` or `..`, and none has a
/// control character or a backslash.
///
/// Names from outside are *escaped*: each byte but ASCII letters, digits, `-`, `_` and `.` becomes `%XX`, and so does a dot at
/// the start. What is then longer than a file name may be is cut, and ends with `~` and the SHA-256 of the name.
///
/// ```
/// # use crawlway_store::blobs::BlobKey;
/// assert_eq!(BlobKey::raw("acme", "42")?.as_str(), "raw/acme/42.html");
/// assert_eq!(BlobKey::raw("../Ben & Co", "a/1")?.as_str(), "raw/%2E.%2FBen%20%26%20Co/a%2F1.html");
/// # Ok::<(), crawlway_store::blobs::InvalidBlobKey>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobKey(String);

/// Error of a text that is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a blob key: {problem}", shortened(.key))]
pub struct InvalidBlobKey {
    key: String,
    problem: &'static str,
}

impl BlobKey {
    /// Key of the raw HTML of a company's job, or of a host's page: `raw/{company}/{external_id}.html`, both escaped.
    ///
    /// # Errors
    /// If one of them is empty.
    pub fn raw(company: &str, external_id: &str) -> Result<Self, InvalidBlobKey> {
        let segment = |name: &str, suffix: &str| match name {
            "" => Err(InvalidBlobKey {
                key: format!("raw/{company}/{external_id}.html"),
                problem: "the name of the company or its id is empty",
            }),
            name => Ok(escaped(name, suffix)),
        };
        Ok(Self(format!("raw/{}/{}", segment(company, "")?, segment(external_id, ".html")?)))
    }

    /// The same key for a test run: below `test/`.
    #[must_use]
    pub fn in_test(&self) -> Self {
        if self.0.starts_with(TEST) { self.clone() } else { Self(format!("{TEST}{}", self.0)) }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Segments of the key.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

/// Parses a key as it is stored: escaped names are given escaped.
impl FromStr for BlobKey {
    type Err = InvalidBlobKey;

    fn from_str(key: &str) -> Result<Self, InvalidBlobKey> {
        let refuse = |problem| Err(InvalidBlobKey { key: key.to_owned(), problem });
        if key.is_empty() {
            return refuse("it is empty; expected a key such as `raw/acme/42.html`");
        }
        if key.len() > MAX_KEY_BYTES {
            return refuse("it is longer than 1024 bytes");
        }
        if key.split('/').any(|segment| matches!(segment, "." | "..")) {
            return refuse("`.` and `..` would leave its folder; in a name a dot at the start is `%2E`");
        }
        if key.split('/').any(str::is_empty) {
            return refuse(
                "a segment is empty; expected no slash at the start, at the end or twice in a row",
            );
        }
        if key.contains(|sign: char| sign.is_control() || sign == '\\') {
            return refuse("it has a control character or a backslash; in a name that is `%XX`");
        }
        Ok(Self(key.to_owned()))
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Escaped name with a suffix, of at most [`MAX_SEGMENT_BYTES`].
fn escaped(name: &str, suffix: &str) -> String {
    let mut segment = String::with_capacity(name.len() + suffix.len());
    let mut kept = 0;
    for (index, octet) in name.bytes().enumerate() {
        let is_plain =
            octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_') || (octet == b'.' && index > 0);
        if is_plain {
            segment.push(char::from(octet));
        } else {
            segment.push_str(&format!("%{octet:02X}"));
        }
        if segment.len() <= KEPT_BYTES {
            kept = segment.len();
        }
    }
    if segment.len() + suffix.len() > MAX_SEGMENT_BYTES {
        segment.truncate(kept);
        segment.push('~');
        segment.push_str(&hex(&Sha256::digest(name.as_bytes())));
    }
    segment + suffix
}

fn shortened(key: &str) -> String {
    let short: String = key.chars().take(80).flat_map(char::escape_debug).collect();
    if key.chars().nth(80).is_some() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_plain_and_others_are_escaped() {
        for (company, id, key) in [
            ("acme", "R-42_b.1", "raw/acme/R-42_b.1.html"),
            ("a/b", "..", "raw/a%2Fb/%2E..html"),
            ("..", ".", "raw/%2E./%2E.html"),
            ("50% off", "~", "raw/50%25%20off/%7E.html"),
            ("🚲", "a\0b\\", "raw/%F0%9F%9A%B2/a%00b%5C.html"),
        ] {
            let made = BlobKey::raw(company, id).unwrap();
            assert_eq!(made.as_str(), key);
            assert_eq!(key.parse(), Ok(made));
        }
        assert!(BlobKey::raw("", "1").is_err() && BlobKey::raw("a", "").is_err());
    }

    #[test]
    fn a_long_name_is_cut_between_escapes_and_has_its_hash() {
        let key = BlobKey::raw(&"ü".repeat(300), "1").unwrap();
        let company = key.segments().nth(1).unwrap();
        let (kept, hash) = company.split_once('~').unwrap();
        assert_eq!((kept, hash.len()), ("%C3%BC".repeat(20).as_str(), 64));
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("/raw/a", "segment is empty"),
            ("raw//a", "segment is empty"),
            ("raw/../a", "leave its folder"),
            ("./a", "leave its folder"),
            ("raw/a\nb", "control character"),
            ("raw\\a", "backslash"),
            (&"a/".repeat(600), "1024 bytes"),
        ] {
            let error = text.parse::<BlobKey>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.len() < 300, "{text}: {error}");
        }
    }

    #[test]
    fn keys_of_test_runs_are_below_their_folder() {
        let key = BlobKey::raw("acme", "1").unwrap();
        assert_eq!(key.in_test().as_str(), "test/raw/acme/1.html");
        assert_eq!(key.in_test().in_test(), key.in_test());
    }

    /// Names that are likely to collide or to leave their folder, and any other.
    fn names() -> impl Strategy<Value = String> {
        prop_oneof![
            "[./%~a2EF]{1,6}",
            "\\PC{1,12}",
            any::<String>().prop_filter("empty", |name| !name.is_empty()),
            "[aü/]{180,400}",
        ]
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_folder_or_is_too_long(company in names(), id in names()) {
            let key = BlobKey::raw(&company, &id).unwrap();
            let parsed: BlobKey = key.as_str().parse().unwrap();
            prop_assert_eq!(&parsed, &key);
            let segments: Vec<&str> = key.segments().collect();
            prop_assert_eq!(segments.len(), 3);
            prop_assert_eq!(segments[0], "raw");
            for segment in &segments {
                prop_assert!(segment.len() <= MAX_SEGMENT_BYTES && !segment.starts_with('.'));
                prop_assert!(segment.is_ascii() && !segment.contains(['@', '\\']));
            }
            prop_assert!(key.in_test().as_str().len() <= MAX_KEY_BYTES);
        }

        #[test]
        fn distinct_names_have_distinct_keys(a in (names(), names()), b in (names(), names())) {
            let key = |(company, id): &(String, String)| BlobKey::raw(company, id).unwrap();
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }
    }
}
