//! Virtual host of one test on the shared RabbitMQ.

use crate::{
    http,
    servers::{self, RabbitMq},
};

/// `guest:guest`, the administrator of the test server.
const GUEST: &str = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";

/// Password with characters that need escaping in a URL.
const PASSWORD: &str = "of their own: p@ss/wörd%20";

/// Virtual host on the shared RabbitMQ, with a user who has permissions only there. It is deleted with its queues on drop.
#[derive(Debug)]
pub struct VirtualHost {
    /// Name of the virtual host and of its user.
    pub name: String,
    /// Server with the credentials of that user.
    pub server: RabbitMq,
}

impl VirtualHost {
    /// Creates a virtual host whose name is unique to this process.
    ///
    /// # Panics
    /// If there is no server, or a request fails.
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

    /// Creates or deletes an object of this virtual host, such as one of the `queues`, by the management API.
    ///
    /// # Panics
    /// If the request fails.
    pub fn manage(&self, method: &str, kind: &str, name: &str, body: &str) {
        manage(&self.server, method, &format!("/api/{kind}/{}/{name}", self.name), body);
    }

    /// Whether this virtual host has a queue.
    ///
    /// # Panics
    /// If the request fails.
    pub fn has_queue(&self, name: &str) -> bool {
        let path = format!("/api/queues/{}/{name}", self.name);
        let (status, _) =
            http::request(management(&self.server), "GET", &path, &[GUEST], "").expect("a response");
        status == 200
    }
}

impl Drop for VirtualHost {
    fn drop(&mut self) {
        for path in ["vhosts", "users"] {
            let path = format!("/api/{path}/{}", self.name);
            let _ = http::request(management(&self.server), "DELETE", &path, &[GUEST], "");
        }
    }
}

fn management(server: &RabbitMq) -> &str {
    server.management.trim_start_matches("http://")
}

fn manage(server: &RabbitMq, method: &str, path: &str, body: &str) {
    let (status, response) =
        http::request(management(server), method, path, &[GUEST], body).expect("a response");
    assert!(matches!(status, 200..=299), "{method} {path}: {status} {response}");
}
