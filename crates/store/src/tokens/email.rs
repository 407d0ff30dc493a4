//! Normal form of e-mail addresses, which identify users and are parts of keys.

/// Maximum length of an address in octets (RFC 5321).
const MAX_LENGTH: usize = 254;
/// Maximum length of the part before the `@`.
const MAX_LOCAL: usize = 64;
/// Maximum length of a label of the domain.
const MAX_LABEL: usize = 63;

/// Normal form of an e-mail address: without surrounding white space, in lower case. The text of an error has what was
/// expected. Only ASCII is accepted, so that no two addresses look the same; quotes, colons and brackets are refused, so that no
/// address reaches into the key of another.
pub fn normalise_email(text: &str) -> Result<String, String> {
    let text = text.trim_matches(' ');
    if text.len() > MAX_LENGTH {
        return Err(format!("expected an e-mail address of at most {MAX_LENGTH} octets"));
    }
    if !text.bytes().all(|octet| octet.is_ascii_graphic()) {
        return Err(
            "expected an e-mail address of ASCII letters, digits and signs, without white space or control \
                    characters; a domain in another script has an ASCII form (`xn--…`)"
                .to_owned(),
        );
    }
    let parts = text.split_once('@').filter(|(_, domain)| !domain.contains('@'));
    let (local, domain) = parts.ok_or("expected an e-mail address with one `@`, such as ann@example.org")?;
    if local.len() > MAX_LOCAL || !local.split('.').all(is_atom) {
        return Err(format!(
            "expected 1 to {MAX_LOCAL} letters, digits and signs before the `@`, without quotes, colons, brackets or a dot at \
             either end"
        ));
    }
    if !domain.split('.').all(is_label) {
        return Err("expected a domain such as example.org after the `@`".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

/// Whether this is an `atom` of RFC 5322, without braces.
fn is_atom(text: &str) -> bool {
    let is_atext = |octet: u8| octet.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`|~".contains(&octet);
    !text.is_empty() && text.bytes().all(is_atext)
}

fn is_label(text: &str) -> bool {
    let is_part = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-';
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(is_part)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_becomes_lower_case() {
        for (given, normal) in [
            ("ann@example.org", "ann@example.org"),
            ("  Ann.B+tag@Example.ORG ", "ann.b+tag@example.org"),
            ("a@localhost", "a@localhost"),
            ("o'neil@xn--mnchen-3ya.example", "o'neil@xn--mnchen-3ya.example"),
        ] {
            assert_eq!(normalise_email(given).as_deref(), Ok(normal));
        }
    }

    #[test]
    fn anything_that_could_be_taken_for_another_key_or_user_is_refused() {
        let long = format!("{}@example.org", "a".repeat(65));
        let longer = format!("a@{}org", "label.".repeat(50));
        for given in [
            "",
            "ann",
            "@example.org",
            "ann@",
            "a@b@c.example",
            "a:b@example.org",
            "a{b}@example.org",
            "a b@example.org",
            "a@exa mple.org",
            "a\t@example.org",
            "\na@example.org",
            "a@example.org\r\n",
            "a\0@example.org",
            "a\u{200b}@example.org",
            "\u{430}nn@example.org",
            "ann@ex\u{e4}mple.org",
            "ann\u{ff20}example.org",
            "\"ann\"@example.org",
            ".ann@example.org",
            "ann.@example.org",
            "a..b@example.org",
            "ann@example..org",
            "ann@-example.org",
            "ann@example.org.",
            "ann@[127.0.0.1]",
            "ann@example.org:8081",
            &long,
            &longer,
        ] {
            let refused = normalise_email(given).expect_err(given);
            assert!(refused.starts_with("expected"), "{given:?}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_is_stable_and_safe_in_a_key(text in "[ -~]{0,40}|[a-zA-Z.:]{1,9}@[a-zA-Z.]{1,9}") {
            if let Ok(normal) = normalise_email(&text) {
                prop_assert_eq!(normalise_email(&normal), Ok(normal.clone()));
                prop_assert!(!normal.contains([':', ' ', '"', '\\', '<', '>']));
                prop_assert_eq!(normal.matches('@').count(), 1);
            }
        }
    }
}
