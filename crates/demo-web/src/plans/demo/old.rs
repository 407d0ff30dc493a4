//! `old.localhost`: a site that has moved, with redirects, errors and an old charset.

use super::{DOCS, NEWS, OLD, SHOP, styled};
use crate::{
    draft::{Draft, Place},
    ground_truth::NotIndexed,
    html::Link,
    response::{Fault, PageResponse},
};
use encoding_rs::WINDOWS_1252;
use hyper::StatusCode;

pub(super) fn fill(draft: &mut Draft) {
    let here = |path: &str| Place::new(OLD, path);
    draft.redirects(StatusCode::MOVED_PERMANENTLY, &[here("/harbour.htm"), Place::new(NEWS, "/harbour")]);
    draft.redirects(StatusCode::PERMANENT_REDIRECT, &[here("/store"), Place::new(SHOP, "/")]);
    let chain = [here("/manual"), here("/manual/"), here("/manual/index.htm"), Place::new(DOCS, "/")];
    draft.redirects(StatusCode::FOUND, &chain);
    draft.put(&here("/loop"), PageResponse::redirect(StatusCode::FOUND, &draft.url(&here("/loop"))));
    draft.deny(&here("/loop"), NotIndexed::RedirectLoop);
    draft.status(&here("/guestbook.cgi"), StatusCode::NOT_FOUND);
    draft.status(&here("/counter.cgi"), StatusCode::GONE);
    draft.failing(&here("/poll.cgi"), Fault::Status(StatusCode::INTERNAL_SERVER_ERROR));
    // The first request gets 503 with `Retry-After`.
    let html = styled(
        "Archive of the old Courier",
        vec![
            "Issues from the years before the web are kept in the cellar and can be read on Thursdays."
                .to_owned(),
        ],
        vec![Link::to("/", "Home")],
    );
    let fault = (Fault::RetryAfter(1), 1);
    draft.put_with(&here("/archive.htm"), PageResponse::html(html.render()), Some(fault));
    draft.expect(&here("/archive.htm"), &html.title, None, None);
    cafe(draft, &here("/cafe.htm"));
    let pdf = here("/issue-1.pdf");
    draft.put(&pdf, PageResponse::of_type("application/pdf", &b"%PDF-1.4\n%%EOF\n"[..]));
    draft.deny(&pdf, NotIndexed::NotHtml);
    let links = [
        "/harbour.htm",
        "/store",
        "/manual",
        "/loop",
        "/guestbook.cgi",
        "/counter.cgi",
        "/poll.cgi",
        "/archive.htm",
        "/cafe.htm",
        "/issue-1.pdf",
    ];
    let links = links.into_iter().map(|path| Link::to(path, path.trim_start_matches('/'))).collect();
    let lead = "Welcome to the old home page of the Courier! Best viewed at 800 by 600. We have moved; please update your bookmarks.";
    draft.page(&here("/"), &styled("The old Courier", vec![lead.to_owned()], links), None);
}

/// Page in windows-1252 with a `<meta>` charset.
fn cafe(draft: &mut Draft, place: &Place) {
    let text =
        "The Café Ångström serves crème brûlée, Käsekuchen and coffee for €2 until the last ferry has left.";
    let mut html = styled("Café Ångström", vec![text.to_owned()], vec![Link::to("/", "Home")]);
    html.head.push_str("<meta http-equiv=\"Content-Type\" content=\"text/html; charset=windows-1252\">\n");
    let page = html.render();
    let (bytes, _, _) = WINDOWS_1252.encode(&page);
    draft.put(place, PageResponse::of_type("text/html", bytes.into_owned()).conditional(0));
    draft.expect(place, &html.title, None, None);
}
