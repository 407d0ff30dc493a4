//! Records written by release 0.1 are migrated: its crawls get names and can be continued.

use crate::{
    postgres::Database,
    site::{Site, json, output_of},
};
use sqlx::{Connection, Executor};
use std::fs;

/// Host and port of the site in the fixtures.
const HOST: [u8; 4] = [127, 83, 19, 99];
const PORT: u16 = 18_999;
const URL: &str = "http://127.83.19.99:18999/";

fn fixture(name: &str) -> String {
    let path = format!("{}/../../tests/fixtures/release-0.1/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

#[test]
fn crawls_of_release_0_1_get_names_and_continue_on_sqlite_and_postgresql() {
    // One test, since both fixtures have the same port.
    let site = Site::at(HOST, PORT);
    fs::create_dir_all(site.data()).unwrap();
    let file = format!("sqlite://{}?mode=rwc", site.data().join("records.db").display());
    run(async {
        let mut database = sqlx::SqliteConnection::connect(&file).await.unwrap();
        database.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(fixture("records.sqlite.sql")))).await.unwrap();
        database.close().await.unwrap();
    });
    continue_crawl(&site);

    let database = Database::new("earlier_release");
    run(async {
        let mut connection = sqlx::PgConnection::connect(&database.url).await.unwrap();
        let dump = sqlx::AssertSqlSafe(fixture("records.postgresql.sql"));
        connection.execute(sqlx::raw_sql(dump)).await.unwrap();
        connection.close().await.unwrap();
    });
    let mut site = site.with_new_home();
    site.variables = vec![
        ("CRAWLWAY_ONLY_PROCESS", "true".to_owned()),
        ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url.clone()),
    ];
    continue_crawl(&site);
    database.drop();
}

/// Continues the crawl that had reached its limit of three pages. The pages of the fixtures never become due.
fn continue_crawl(site: &Site) {
    let crawl = |flags: &[&str]| site.crawl_to_end(&[&[URL, "--recrawl-after", "36500d"], flags].concat());
    let links = ["/a", "/b", "/c", "/d"];
    site.page("/", "", "front start", &links);
    site.page("/a", "", "page a", &["/a/below"]);
    for path in ["/b", "/c", "/d", "/a/below"] {
        site.page(path, "", "page", &[]);
    }
    let more = crawl(&["--pages", "5"]);
    assert_eq!((&more["crawl"], &more["new"]), (&"127.83.19.99-18999".into(), &false.into()), "{more}");
    assert_eq!((&more["state"], &more["counts"]["fetched"]), (&"limited".into(), &5.into()), "{more}");
    let all = crawl(&[]);
    assert_eq!((&all["state"], &all["counts"]["fetched"]), (&"finished".into(), &6.into()), "{all}");
    // Release 0.1 stored no links, so that a wider scope fetches the pages once more.
    let before = site.requests("/a");
    let wider = crawl(&["--exclude", "/nothing*"]);
    assert_eq!((&wider["state"], &wider["counts"]["fetched"]), (&"finished".into(), &6.into()), "{wider}");
    assert!(site.requests("/a") > before, "{wider}");
    let listed = json(&output_of(site.program(&["crawl", "list", "--json"])), 0);
    let names: Vec<&str> =
        listed["crawls"].as_array().unwrap().iter().map(|crawl| crawl["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{listed}");
    assert!(names.iter().all(|name| name.starts_with("127.83.19.99-18999")), "{listed}");
    let trail = json(&output_of(site.program(&["trail", &format!("{URL}b"), "--json"])), 0);
    assert!(!trail["items"].as_array().unwrap().is_empty(), "{trail}");
}
