//! Other content types of the crash web: files that are not HTML, and pages in other charsets.

use super::Crash;
use crate::{ground_truth::NotIndexed, response::PageResponse};
use encoding_rs::{EUC_KR, Encoding, GB18030, KOI8_R, SHIFT_JIS, WINDOWS_1252};

const FILES: [(&str, &str, &[u8]); 6] = [
    ("/files/report-{}.pdf", "application/pdf", b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n%%EOF\n"),
    (
        "/files/picture-{}.png",
        "image/png",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0",
    ),
    ("/files/archive-{}.zip", "application/zip", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("/files/song-{}.mp3", "audio/mpeg", b"ID3\x04\0\0\0\0\0\0"),
    (
        "/files/data-{}",
        "application/octet-stream",
        b"\0\x01\x02\x03<html><a href=\"/never\">not a page</a></html>",
    ),
    ("/files/style-{}.css", "text/css", b"body { color: black }\n"),
];

/// Text in another language and charset.
struct CharsetSample {
    encoding: &'static Encoding,
    /// Header with the charset; without it the page has a `<meta>` charset.
    content_type: Option<&'static str>,
    language: &'static str,
    title: &'static str,
    text: &'static str,
}

const CHARSET_SAMPLES: [CharsetSample; 6] = [
    CharsetSample {
        encoding: WINDOWS_1252,
        content_type: Some("text/html; charset=windows-1252"),
        language: "fr",
        title: "Le marché aux poissons",
        text: "Chaque matin, les pêcheurs arrivent à l’aube et déchargent leurs caisses sur le quai glacé. \
               Les cuisinières goûtent, marchandent, et repartent avec du merlan à deux € le kilo.",
    },
    CharsetSample {
        encoding: WINDOWS_1252,
        content_type: None,
        language: "de",
        title: "Die Brücke über den Fluß",
        text: "Früher fuhr hier nur eine Fähre, und wer zu spät kam, mußte bis zum Morgen warten. Seit es die \
               Brücke gibt, hören die Gänse den Zug schon von weitem und flüchten ins Röhricht.",
    },
    CharsetSample {
        encoding: SHIFT_JIS,
        content_type: None,
        language: "ja",
        title: "港の朝",
        text: "港の朝は早い。漁師たちは夜明け前に船を出し、日が昇るころには魚を積んで帰ってくる。\
               市場では声が飛び交い、猫が足もとで待っている。",
    },
    CharsetSample {
        encoding: KOI8_R,
        content_type: Some("text/html; charset=koi8-r"),
        language: "ru",
        title: "Старая мельница",
        text: "Старая мельница стоит у реки уже двести лет. Мельник говорит, что зимой колесо поёт, \
               а весной молчит, потому что вода слишком высока.",
    },
    CharsetSample {
        encoding: EUC_KR,
        content_type: Some("text/html; charset=euc-kr"),
        language: "ko",
        title: "산속의 절",
        text: "산속의 절에는 오래된 종이 하나 있다. 저녁마다 스님이 종을 치면 마을 사람들은 일을 멈추고 귀를 기울인다.",
    },
    CharsetSample {
        encoding: GB18030,
        content_type: None,
        language: "zh",
        title: "茶馆里的下午",
        text: "下午的茶馆总是很热闹。老人们下棋,孩子们听故事,窗外的雨下个不停。老板说,雨天的茶最香。",
    },
];

pub(super) fn add(crash: &mut Crash<'_>) {
    for (path, content_type, bytes) in FILES {
        let place = crash.place(path);
        crash.draft.put(&place, PageResponse::of_type(content_type, bytes).conditional(2));
        crash.draft.deny(&place, NotIndexed::NotHtml);
        crash.link_twice(&place, "A file");
    }
    for sample in CHARSET_SAMPLES {
        let place = crash.place("/abroad/{}");
        let mut article = crash.ordinary_article();
        article.title = format!("{} {}", sample.title, crash.numbered);
        article.paragraphs.insert(0, sample.text.to_owned());
        let links = crash.links_back();
        let mut html = article.html(links);
        html.language = sample.language;
        // An empty declaration suppresses the default one.
        html.head = match sample.content_type {
            Some(_) => "<!-- charset= is in the header -->\n".to_owned(),
            None => format!("<meta charset=\"{}\">\n", sample.encoding.name().to_ascii_lowercase()),
        };
        let text = html.render();
        let (bytes, _, _) = sample.encoding.encode(&text);
        let answer = PageResponse::of_type(sample.content_type.unwrap_or("text/html"), bytes.into_owned());
        crash.draft.put(&place, answer.conditional(2));
        crash.draft.expect(&place, &article.title, Some(article.word), None);
        crash.link_twice(&place, "Abroad");
    }
}
