//! Path normalisation, so that the server accepts every equivalent form of a path.

/// Normalises a path and query: dot segments resolved, unreserved characters decoded, hex digits in upper case, no empty
/// query.
pub(crate) fn normalise(path_and_query: &str) -> String {
    let decoded = decode_unreserved(path_and_query);
    let (path, query) = match decoded.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (decoded.as_str(), None),
    };
    let mut normal = without_dots(path);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        normal.push('?');
        normal.push_str(query);
    }
    normal
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
    let mut resolved: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    resolved.pop();
                }
                if is_last {
                    resolved.push("");
                }
            }
            _ => resolved.push(segment),
        }
    }
    format!("/{}", resolved.join("/"))
}

#[cfg(test)]
mod tests {
    use super::normalise;

    #[test]
    fn equivalent_paths_are_equal() {
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
            assert_eq!(normalise(spelling), expected, "{spelling}");
        }
    }
}
