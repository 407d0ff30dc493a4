//! Requests of several users under load, and what must have become of them.

use super::deployment::EMAIL;
use crate::{inventory::Site, lab::Up};
use crawlway_testkit::http;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const USERS: [&str; 3] = [EMAIL, "second@example.com", "third@example.com"];

/// Accepted requests.
#[derive(Default)]
pub(crate) struct Load {
    /// User and URL of each, by its id.
    accepted: BTreeMap<String, (&'static str, String)>,
    posted: usize,
}

impl Load {
    /// Posts requests for pages of their own. Returns the number of those that are accepted.
    pub(crate) fn post(&mut self, gateway: &Up, site: &Site, count: usize) -> usize {
        let before = self.accepted.len();
        for _ in 0..count {
            self.posted += 1;
            let (user, url) =
                (USERS[self.posted % USERS.len()], site.url(&format!("/ok/load/{}", self.posted)));
            let body = json!({ "url": url, "email": user }).to_string();
            match http::request(&gateway.address, "POST", "/api/requests", &[], &body).unwrap() {
                (202, text) => {
                    let request: Value = serde_json::from_str(&text).unwrap();
                    self.accepted.insert(request["id"].as_str().unwrap().to_owned(), (user, url));
                }
                (status, text) => assert_eq!(status, 503, "{text}"),
            }
        }
        self.accepted.len() - before
    }

    /// Ids of the accepted requests of the first user.
    pub(crate) fn of_first_user(&self) -> impl Iterator<Item = &str> {
        self.accepted.iter().filter(|(_, (user, _))| *user == EMAIL).map(|(id, _)| id.as_str())
    }

    /// Asserts that each accepted request ends with its own page, that each user has their own requests alone, and that nothing is
    /// a dead letter.
    pub(crate) fn assert_completed(&self, gateway: &Up) {
        for (id, (user, url)) in &self.accepted {
            let path = format!("/api/requests/{id}?email={user}");
            let request = gateway.wait(&path, |request| request["status"] != "pending");
            assert_eq!(
                (&request["status"], &request["url"]),
                (&json!("completed"), &json!(url)),
                "{request}"
            );
            assert_eq!(request["result"]["url"], json!(url), "the result of another request: {request}");
        }
        for user in USERS {
            let expected = self.accepted.values().filter(|(owner, _)| *owner == user).count();
            let (mut listed, mut cursor) = (0, String::new());
            loop {
                let (_, page) = gateway.get(&format!("/api/requests?email={user}&limit=100{cursor}"));
                listed += page["requests"].as_array().unwrap().len();
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert_eq!(listed, expected, "{user} has their own requests alone");
        }
        for queue in ["crawl-requests", "crawl-responses"] {
            let (_, dead) = gateway.get(&format!("/api/dead?queue={queue}"));
            assert_eq!(dead["dead"], json!([]), "no fault causes a dead letter");
        }
    }
}
