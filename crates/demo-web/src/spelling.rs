//! Spellings of one path: a server answers to all of them, as real servers do.

/// The path and query in the spelling by which pages are kept: dot segments resolved, escapes of unreserved
/// characters decoded, hexadecimal digits in upper case, no empty query.
pub(crate) fn usual(path_and_query: &str) -> String {
    let decoded = decode_unreserved(path_and_query);
    let (path, query) = match decoded.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (decoded.as_str(), None),
    };
    let mut usual = without_dots(path);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        usual.push('?');
        usual.push_str(query);
    }
    usual
}

fn decode_unreserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(code) = code else {
            out.push('%');
            rest = &rest[at + 1..];
            continue;
        };
        let character = char::from(code);
        if character.is_ascii_alphanumeric() || "-._~".contains(character) {
            out.push(character);
        } else {
            out.push_str(&format!("%{code:02X}"));
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    out
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn spellings_of_one_path_become_one() {
        for (spelling, expected) in [
            ("/", "/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/b/..", "/a/"),
            ("/../a", "/a"),
            ("/%7euser/%61", "/~user/a"),
            ("/caf%c3%a9?", "/caf%C3%A9"),
            ("/a?q=%41&b", "/a?q=A&b"),
            ("/100%", "/100%"),
            ("/%zz%2", "/%zz%2"),
        ] {
            assert_eq!(usual(spelling), expected, "{spelling}");
        }
    }
}
