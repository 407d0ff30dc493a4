//! Pages that vanish, or no longer want to be found, are no longer found once they are crawled again.

use crate::site::{Answer, Site};

#[test]
fn what_is_gone_at_the_next_crawl_is_no_longer_found() {
    let site = Site::new();
    let paths = ["/stays", "/gone", "/deleted", "/hides", "/moves", "/proper", "/becomes-a-file", "/broken"];
    site.page("/", "", "front start", &paths);
    for path in paths {
        site.page(path, "", "words", &[]);
    }
    site.put("/kept", Answer::page("<p>words</p>").with("etag", "\"1\""));
    site.page("/stays", "", "words", &["/kept"]);
    let again = ["--recrawl-after", "1ms"];
    site.crawled(&again);
    let mut all = paths.to_vec();
    all.push("/kept");
    all.sort_unstable();
    assert_eq!(site.found("words"), all);

    site.put("/gone", Answer::status(404));
    site.put("/deleted", Answer::status(410));
    site.page("/hides", "<meta name=robots content=noindex>", "words", &[]);
    site.put("/moves", Answer::redirect("/new-place"));
    site.page("/new-place", "", "words", &[]);
    site.canonical("/proper", "/stays", "words");
    site.put("/becomes-a-file", Answer::status(200).with("content-type", "application/pdf"));
    // Not its word that it is gone: it may be back tomorrow.
    site.put("/broken", Answer::status(500));
    let told = site.crawled(&again);
    assert_eq!(site.found("words"), ["/broken", "/kept", "/new-place", "/stays"], "{told}");
    assert_eq!(told["counts"]["outcomes"]["unchanged"].as_u64(), Some(1), "{told}");
}
