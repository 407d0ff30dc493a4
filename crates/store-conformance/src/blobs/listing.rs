//! Cases: lists, and the expiry of links.

use super::fixture::*;

pub(super) async fn keys_are_listed_in_byte_order(t: Fixture<'_>) {
    // A slash is between `.` and `0`.
    let names = ["a", "a-b", "a.html", "a/b", "a/b/c", "a/c", "a0", "b/a", "raw/A/1.html", "raw/a/1.html"];
    for name in names.iter().rev() {
        t.put(name, name).await;
    }
    assert_eq!(t.list("", None, 100).await, (names.map(str::to_owned).to_vec(), false));
}

pub(super) async fn a_prefix_is_compared_by_bytes(t: Fixture<'_>) {
    for name in ["raw/ab/1.html", "raw/abc/1.html", "raw/b/1.html", "test/raw/ab/1.html"] {
        t.put(name, name).await;
    }
    for (prefix, expected) in [
        ("raw/ab", &["raw/ab/1.html", "raw/abc/1.html"][..]),
        ("raw/ab/", &["raw/ab/1.html"]),
        ("raw/ab/1.html", &["raw/ab/1.html"]),
        ("raw/ab/1.html/", &[]),
        ("test/", &["test/raw/ab/1.html"]),
        ("w/ab", &[]),
        ("zzz", &[]),
    ] {
        assert_eq!(t.list(prefix, None, 100).await, (to_vec(expected), false), "{prefix}");
    }
}

fn to_vec(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(super) async fn pages_have_every_key_once(t: Fixture<'_>) {
    let mut expected: Vec<String> = (0..23).map(|index| format!("raw/{}/{index}.html", index % 4)).collect();
    for name in &expected {
        t.put(name, "a").await;
    }
    expected.sort();
    for limit in [1, 5, 22, 23, 24] {
        let mut found: Vec<String> = Vec::new();
        loop {
            let (page, more) = t.list("raw/", found.last().map(String::as_str), limit).await;
            assert!(page.len() <= limit, "a page of {limit} has {}", page.len());
            found.extend(page);
            if !more {
                break;
            }
            assert!(found.len() < expected.len(), "there is no more after {}", found.len());
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}

pub(super) async fn an_entry_has_size_and_time(t: Fixture<'_>) {
    let put = t.put("raw/acme/1.html", "12345").await;
    let query = BlobQuery { limit: 1, ..BlobQuery::default() };
    let page = expect_ok(t.store.list(&query).await, "listing");
    assert_eq!(page.entries[0].size, 5);
    let stat = expect_ok(t.store.stat(&put.key).await, "stat").expect("it is there");
    assert!(page.entries[0].stored_at.since(stat.stored_at) < Duration::from_secs(2));
}

pub(super) async fn links_expire_as_wanted(t: Fixture<'_>) {
    let put = t.put("raw/acme/1.html", "one").await;
    let link = expect_ok(t.store.link(&put.key, Duration::from_secs(3600)).await, "a link");
    let valid_for = link.expires_at.since(t.now());
    let difference = valid_for.abs_diff(Duration::from_secs(3600));
    assert!(difference <= Duration::from_secs(5), "{valid_for:?}");
}
