//! Cases: putting, reading and deleting.

use super::fixture::*;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

pub(super) async fn a_blob_comes_back_with_its_metadata(t: Fixture<'_>) {
    let put = t.put("raw/acme/1.html", "<p>hello</p>").await;
    assert_eq!((put.size, put.metadata.clone()), (12, metadata("page")), "the answer of the put");
    assert_eq!(put.sha256.as_ref().map(String::len), Some(64), "a hash in hexadecimal");
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("<p>hello</p>"));
    let found = expect_ok(t.store.stat(&key("raw/acme/1.html")).await, "stat").expect("it is there");
    assert_eq!((found.size, found.sha256, found.metadata), (put.size, put.sha256, put.metadata));
    let apart = found.stored_at.since(put.stored_at).max(put.stored_at.since(found.stored_at));
    assert!(apart <= Duration::from_secs(5), "{:?} and {:?}", found.stored_at, put.stored_at);
}

pub(super) async fn a_blob_that_is_not_there_is_none(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "one").await;
    for name in ["raw/acme/2.html", "raw/acme", "raw", "raw/acme/1.html/more", "raw/acme/1", "other"] {
        assert_eq!(t.read(name).await, None, "{name}");
        assert_eq!(expect_ok(t.store.stat(&key(name)).await, "stat"), None, "{name}");
    }
}

pub(super) async fn metadata_are_optional(t: Fixture<'_>) {
    let name = key("raw/acme/1.html");
    expect_ok(t.store.put(&name, &BlobMetadata::default(), once("plain")).await, "putting");
    let found = expect_ok(t.store.stat(&name).await, "stat").expect("it is there").metadata;
    assert_eq!((found.url, found.fetched_at, found.content_encoding), (None, None, None));
}

pub(super) async fn an_empty_blob_is_a_blob(t: Fixture<'_>) {
    let name = key("raw/acme/empty.html");
    for content in [once(Bytes::new()), stream::empty().boxed()] {
        assert_eq!(expect_ok(t.store.put(&name, &metadata("a"), content).await, "putting").size, 0);
        assert_eq!(t.read("raw/acme/empty.html").await.as_deref(), Some(""));
    }
}

pub(super) async fn a_large_blob_comes_back_in_chunks(t: Fixture<'_>) {
    const CHUNKS: u64 = 300;
    let chunk = |index: u64| Bytes::from(vec![u8::try_from(index % 251).unwrap_or(0); 65_537]);
    let name = key("raw/acme/large.html");
    let content = stream::iter(0..CHUNKS).map(move |index| Ok(chunk(index))).boxed();
    let put = expect_ok(t.store.put(&name, &metadata("a"), content).await, "putting");
    assert_eq!(put.size, CHUNKS * 65_537);
    let (info, mut content) = expect_ok(t.store.get(&name).await, "reading").expect("it is there");
    assert_eq!((info.sha256, info.metadata), (put.sha256, metadata("a")));
    let mut place = 0u64;
    while let Some(bytes) = expect_ok(content.try_next().await, "reading a chunk") {
        assert!(bytes.len() as u64 * 4 < put.size, "it is not read as a whole");
        for byte in bytes {
            assert_eq!(u64::from(byte), place / 65_537 % 251, "byte {place}");
            place += 1;
        }
    }
    assert_eq!(place, put.size);
}

pub(super) async fn a_replaced_blob_has_nothing_of_the_previous_one(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "a longer content").await;
    let name = key("raw/acme/1.html");
    let other = BlobMetadata { content_type: Some("text/plain".to_owned()), ..BlobMetadata::default() };
    let put = expect_ok(t.store.put(&name, &other, once("short")).await, "putting");
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("short"));
    let found = expect_ok(t.store.stat(&name).await, "stat").expect("it is there");
    assert_eq!((found.size, found.sha256, found.metadata), (5, put.sha256, other));
    assert_eq!(t.list("", None, 10).await.0, ["raw/acme/1.html"], "there is one");
}

pub(super) async fn a_content_that_fails_changes_nothing(t: Fixture<'_>) {
    let broken = |chunks: usize| {
        let error = StoreError::Invalid { problem: "torn".to_owned() };
        let chunk = || Ok(Bytes::from(vec![b'x'; 1 << 20]));
        stream::iter((0..chunks).map(move |_| chunk()).chain([Err(error)])).boxed()
    };
    t.put("raw/acme/1.html", "before").await;
    for name in ["raw/acme/1.html", "raw/acme/2.html", "raw/new/1.html"] {
        for chunks in [0, 1, 12] {
            let put = t.store.put(&key(name), &metadata("a"), broken(chunks)).await;
            assert_eq!(put, Err(StoreError::Invalid { problem: "torn".to_owned() }), "{name}");
        }
    }
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("before"));
    assert_eq!(t.list("", None, 10).await.0, ["raw/acme/1.html"], "nothing new is visible");
}

pub(super) async fn a_blob_can_be_read_while_it_is_replaced_and_deleted(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "first").await;
    let opened = expect_ok(t.store.get(&key("raw/acme/1.html")).await, "reading").expect("it is there");
    t.put("raw/acme/1.html", "second").await;
    expect_ok(t.store.delete(&key("raw/acme/1.html")).await, "deleting");
    assert_eq!(collect(opened.1, 100).await, Ok(b"first".to_vec()), "what was opened is read");
}

pub(super) async fn odd_names_are_kept_apart(t: Fixture<'_>) {
    let mut names = odd_urls();
    names.extend(["..", ".", "a/../../b", "~", "%2F", "/", "a@meta", "\0", "CON", " "].map(str::to_owned));
    names.push("🚲".repeat(300));
    let key = |name: &str| BlobKey::raw(name, name).unwrap_or_else(|error| panic!("{error}"));
    for name in &names {
        expect_ok(t.store.put(&key(name), &metadata("a"), once(name.clone())).await, "putting");
    }
    for name in &names {
        assert_eq!(read(&*t.store, &key(name)).await.as_ref(), Some(name));
    }
    assert_eq!(t.list("raw/", None, 1000).await.0.len(), names.len(), "each is listed below its prefix");
}

pub(super) async fn a_url_that_is_not_in_its_normal_form_is_refused(t: Fixture<'_>) {
    let wrong = BlobMetadata { url: Some("https://a.example/a b".to_owned()), ..metadata("a") };
    let put = t.store.put(&key("raw/a/1.html"), &wrong, once("a")).await;
    assert!(matches!(put, Err(StoreError::Invalid { .. })), "{put:?}");
    assert_eq!(t.list("", None, 10).await.0, [""; 0]);
}

pub(super) async fn a_deleted_blob_is_gone_and_can_be_deleted_again(t: Fixture<'_>) {
    t.put("raw/acme/1.html", "one").await;
    t.put("raw/acme/2.html", "two").await;
    for _ in 0..2 {
        expect_ok(t.store.delete(&key("raw/acme/1.html")).await, "deleting");
        assert_eq!(t.read("raw/acme/1.html").await, None);
    }
    expect_ok(t.store.delete(&key("never/was")).await, "deleting what never was");
    assert_eq!(t.list("", None, 10).await.0, ["raw/acme/2.html"], "others stay");
    t.put("raw/acme/1.html", "again").await;
    assert_eq!(t.read("raw/acme/1.html").await.as_deref(), Some("again"));
}
