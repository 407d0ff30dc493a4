//! Pages that vanish, move or become `noindex` are removed from the index by the next crawl.

use crate::site::{Response, Site};

#[test]
fn the_next_crawl_removes_vanished_pages_from_the_index() {
    let site = Site::new();
    let paths = ["/stays", "/gone", "/deleted", "/hides", "/moves", "/proper", "/becomes-a-file", "/broken"];
    site.page("/", "", "front start", &paths);
    for path in paths {
        site.page(path, "", "words", &[]);
    }
    site.put("/kept", Response::page("<p>words</p>").with("etag", "\"1\""));
    site.page("/stays", "", "words", &["/kept"]);
    let again = ["--recrawl-after", "1ms"];
    site.crawl_to_end(&again);
    let mut all = paths.to_vec();
    all.push("/kept");
    all.sort_unstable();
    assert_eq!(site.search("words"), all);

    site.put("/gone", Response::status(404));
    site.put("/deleted", Response::status(410));
    site.page("/hides", "<meta name=robots content=noindex>", "words", &[]);
    site.put("/moves", Response::redirect("/new-place"));
    site.page("/new-place", "", "words", &[]);
    site.canonical("/proper", "/stays", "words");
    site.put("/becomes-a-file", Response::status(200).with("content-type", "application/pdf"));
    // A temporary failure: the page stays in the index.
    site.put("/broken", Response::status(500));
    let report = site.crawl_to_end(&again);
    assert_eq!(site.search("words"), ["/broken", "/kept", "/new-place", "/stays"], "{report}");
    assert_eq!(report["counts"]["outcomes"]["unchanged"].as_u64(), Some(1), "{report}");
}
