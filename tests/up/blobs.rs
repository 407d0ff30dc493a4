//! Blobs of a running gateway: a link of the command line is served without a token, until it expires.

use crate::lab::Lab;
use std::fs;

#[test]
fn a_link_of_the_command_line_is_served_without_a_token() {
    let lab = Lab::new("[gateway]\ntoken = \"admin-token-of-the-test\"\n");
    let page = lab.data().with_file_name("page.html");
    fs::write(&page, "<p>hello</p>").unwrap();
    let up = lab.up();
    let put = lab.run(&["blob", "put", "raw/a%20b/1.html", page.to_str().unwrap()]);
    assert_eq!(put.status.code(), Some(0), "{put:?}");
    let link = |valid: &str| {
        let printed = lab.run(&["blob", "url", "raw/a%20b/1.html", "--valid", valid]);
        assert_eq!(printed.status.code(), Some(0), "{printed:?}");
        let url = String::from_utf8(printed.stdout).unwrap();
        url.trim().strip_prefix(&format!("http://{}", up.address)).unwrap().to_owned()
    };
    let path = link("1h");
    assert_eq!(up.get_text(&path), (200, "<p>hello</p>".to_owned()));
    let (status, problem) = up.get(&path.replace("1.html", "2.html"));
    assert_eq!((status, &problem["type"]), (403, &"urn:crawlway:problem:forged-link".into()), "{problem}");
    let (plain, _) = path.split_once('?').unwrap();
    assert_eq!(up.get(plain).0, 401, "without a signature a token is needed");
    let path = link("1s");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let (status, problem) = up.get(&path);
    assert_eq!((status, &problem["type"]), (410, &"urn:crawlway:problem:expired-link".into()), "{problem}");
}
