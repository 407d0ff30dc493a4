//! A virtual host of a test's own on the RabbitMQ that all tests share.

use crate::{
    http,
    servers::{self, RabbitMq},
};

/// guest:guest, who may do everything on a server for tests.
const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";

/// What every user of a virtual host may have to escape.
const PASSWORD: &str = "of their own: p@ss/wörd%20";

/// A virtual host of a test's own on the RabbitMQ that all tests share, and a user who may do everything there and nothing
/// elsewhere. Dropped, it is gone with its queues.
#[derive(Debug)]
pub struct VirtualHost {
    /// Its name, which is also the user's.
    pub name: String,
    /// The server, as that user sees it.
    pub server: RabbitMq,
}

impl VirtualHost {
    /// Makes one; no other process has the same.
    ///
    /// # Panics
    /// If there is no server, or it refuses.
    pub fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let mut server = servers::rabbitmq();
        manage(&server, "PUT", &format!("/api/vhosts/{name}"), "{}");
        let user = format!(r#"{{"password": "{PASSWORD}", "tags": "management"}}"#);
        manage(&server, "PUT", &format!("/api/users/{name}"), &user);
        let everything = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
        manage(&server, "PUT", &format!("/api/permissions/{name}/{name}"), everything);
        (server.user, server.password) = (name.clone(), PASSWORD.to_owned());
        Self { name, server }
    }

    /// Makes or deletes something of this virtual host, such as one of the `queues`, by the server's management.
    ///
    /// # Panics
    /// If it refuses.
    pub fn manage(&self, method: &str, kind: &str, name: &str, body: &str) {
        manage(&self.server, method, &format!("/api/{kind}/{}/{name}", self.name), body);
    }
}

impl Drop for VirtualHost {
    fn drop(&mut self) {
        for path in ["vhosts", "users"] {
            let path = format!("/api/{path}/{}", self.name);
            let _ = http::ask(management(&self.server), "DELETE", &path, &[GUEST], "");
        }
    }
}

fn management(server: &RabbitMq) -> &str {
    server.management.trim_start_matches("http://")
}

fn manage(server: &RabbitMq, method: &str, path: &str, body: &str) {
    let (status, answer) = http::ask(management(server), method, path, &[GUEST], body).expect("an answer");
    assert!(matches!(status, 200..=299), "{method} {path}: {status} {answer}");
}
