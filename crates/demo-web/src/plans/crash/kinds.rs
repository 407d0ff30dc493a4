//! Other kinds of content of the crash web: files that are no pages, and pages in other charsets.

use super::Crash;
use crate::{answer::Answer, truth::Why};
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

/// A text in another language and charset.
struct Foreign {
    encoding: &'static Encoding,
    /// Says the charset in the header; without it the page says so itself.
    content_type: Option<&'static str>,
    language: &'static str,
    title: &'static str,
    text: &'static str,
}

const FOREIGN: [Foreign; 6] = [
    Foreign {
        encoding: WINDOWS_1252,
        content_type: Some("text/html; charset=windows-1252"),
        language: "fr",
        title: "Le marché aux poissons",
        text: "Chaque matin, les pêcheurs arrivent à l’aube et déchargent leurs caisses sur le quai glacé. \
               Les cuisinières goûtent, marchandent, et repartent avec du merlan à deux € le kilo.",
    },
    Foreign {
        encoding: WINDOWS_1252,
        content_type: None,
        language: "de",
        title: "Die Brücke über den Fluß",
        text: "Früher fuhr hier nur eine Fähre, und wer zu spät kam, mußte bis zum Morgen warten. Seit es die \
               Brücke gibt, hören die Gänse den Zug schon von weitem und flüchten ins Röhricht.",
    },
    Foreign {
        encoding: SHIFT_JIS,
        content_type: None,
        language: "ja",
        title: "港の朝",
        text: "港の朝は早い。漁師たちは夜明け前に船を出し、日が昇るころには魚を積んで帰ってくる。\
               市場では声が飛び交い、猫が足もとで待っている。",
    },
    Foreign {
        encoding: KOI8_R,
        content_type: Some("text/html; charset=koi8-r"),
        language: "ru",
        title: "Старая мельница",
        text: "Старая мельница стоит у реки уже двести лет. Мельник говорит, что зимой колесо поёт, \
               а весной молчит, потому что вода слишком высока.",
    },
    Foreign {
        encoding: EUC_KR,
        content_type: Some("text/html; charset=euc-kr"),
        language: "ko",
        title: "산속의 절",
        text: "산속의 절에는 오래된 종이 하나 있다. 저녁마다 스님이 종을 치면 마을 사람들은 일을 멈추고 귀를 기울인다.",
    },
    Foreign {
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
        crash.draft.put(&place, Answer::of_type(content_type, bytes).conditional(2));
        crash.draft.deny(&place, Why::NotHtml);
        crash.hang(&place, "A file");
    }
    for foreign in FOREIGN {
        let place = crash.place("/abroad/{}");
        let mut article = crash.ordinary_article();
        article.title = format!("{} {}", foreign.title, crash.numbered);
        article.paragraphs.insert(0, foreign.text.to_owned());
        let links = crash.ways_back();
        let mut html = article.html(links);
        html.language = foreign.language;
        // An empty declaration keeps the layout from saying UTF-8.
        html.head = match foreign.content_type {
            Some(_) => "<!-- charset= is in the header -->\n".to_owned(),
            None => format!("<meta charset=\"{}\">\n", foreign.encoding.name().to_ascii_lowercase()),
        };
        let text = html.render();
        let (bytes, _, _) = foreign.encoding.encode(&text);
        let answer = Answer::of_type(foreign.content_type.unwrap_or("text/html"), bytes.into_owned());
        crash.draft.put(&place, answer.conditional(2));
        crash.draft.expect(&place, &article.title, Some(article.word), None);
        crash.hang(&place, "Abroad");
    }
}
