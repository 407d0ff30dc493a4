//! Charset detection and decoding.

use crawlway_content::charset::decode;

fn decoded(bytes: &[u8], content_type: Option<&str>) -> (String, &'static str, bool) {
    let decoded = decode(bytes, content_type);
    (decoded.text.into_owned(), decoded.encoding, decoded.had_errors)
}

#[test]
fn a_byte_order_mark_beats_everything() {
    assert_eq!(
        decoded(b"\xef\xbb\xbfh\xc3\xa9", Some("text/html; charset=koi8-r")),
        ("hé".into(), "UTF-8", false)
    );
    assert_eq!(decoded(b"\xff\xfeh\0\xe9\0", None), ("hé".into(), "UTF-16LE", false));
    assert_eq!(decoded(b"\xfe\xff\0h\0\xe9", None), ("hé".into(), "UTF-16BE", false));
}

#[test]
fn the_header_beats_the_document() {
    let html = b"<meta charset=utf-8>\xe9t\xe9";
    assert_eq!(decoded(html, Some("text/html; charset=\"ISO-8859-1\"")).1, "windows-1252");
    assert_eq!(decoded(html, Some("text/html;CHARSET=windows-1251;x=y")).1, "windows-1251");
    assert_eq!(decoded(html, Some("text/html; charset=nonsense")).1, "UTF-8");
    assert_eq!(
        decoded(html, Some("text/html")),
        ("<meta charset=utf-8>\u{fffd}t\u{fffd}".into(), "UTF-8", true)
    );
}

#[test]
fn the_document_beats_detection() {
    let (text, encoding, _) =
        decoded(b"<html><head><meta charset=\"shift_jis\"><title>\x93\xfa\x96{</title>", None);
    assert_eq!((text.ends_with("<title>日本</title>"), encoding), (true, "Shift_JIS"));
    let late = [b" ".repeat(1024).as_slice(), b"<meta charset=koi8-r>"].concat();
    assert_eq!(decoded(&late, None).1, "UTF-8");
}

#[test]
fn undeclared_text_is_detected() {
    let russian = encoding_rs::WINDOWS_1251.encode("Сегодня утром в городе открыли новый мост через реку.").0;
    assert_eq!(decoded(&russian, None).1, "windows-1251");
    let japanese = encoding_rs::EUC_JP.encode("今日は新しい橋が開通しました。多くの人が集まりました。").0;
    assert_eq!(decoded(&japanese, None).1, "EUC-JP");
    assert_eq!(decoded("déjà vu".as_bytes(), None), ("déjà vu".into(), "UTF-8", false));
    assert_eq!(decoded(b"", None), (String::new(), "UTF-8", false));
}

#[test]
fn replaced_encodings_are_decoded() {
    assert_eq!(decoded(b"plain text", Some("text/html; charset=hz-gb-2312")).0, "plain text");
    assert_eq!(decoded(b"<meta charset=utf-16>plain", None).0, "<meta charset=utf-16>plain");
}
