//! Trims suffixes of headings and posts.

/// Length of a heading without `[edit]` or a permalink sign.
pub(super) fn without_heading_suffix(heading: &[u8]) -> usize {
    let mut kept = heading;
    if kept.ends_with(b"]")
        && let Some(open) = kept.iter().rposition(|&byte| byte == b'[')
        && open > 0
        && kept.len() - open <= 24
    {
        kept = &kept[..open];
    }
    for sign in ["¶", "#", "§", "🔗", "∞"] {
        if let Some(rest) = kept.trim_ascii_end().strip_suffix(sign.as_bytes())
            && !rest.is_empty()
        {
            kept = rest;
        }
    }
    kept.trim_ascii_end().len()
}

/// Length of a line without the linked number of a post: `3 May #12`.
pub(super) fn without_post_number(line: &[u8]) -> usize {
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &line[..line.len() - digits];
    match rest.strip_suffix(b" #") {
        Some(kept) if (1..=5).contains(&digits) && !kept.is_empty() => kept.trim_ascii_end().len(),
        _ => line.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn post_numbers_are_trimmed() {
        assert_eq!(without_post_number(b"3 May #12"), 5);
        for whole in ["3 May 12", "#12", "Issue#12", "3 May #", ""] {
            assert_eq!(without_post_number(whole.as_bytes()), whole.len(), "{whole}");
        }
    }
}
