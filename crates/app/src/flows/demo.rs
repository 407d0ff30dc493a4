//! What a flow does in `crawlway demo`, after the crawl.

use crate::{command::Shell, service::Client};
use crawlway_demo_web::Web;
use futures::future::BoxFuture;
use serde_json::Value;

/// Example of a flow in the demo.
pub trait FlowDemo: Sync {
    /// Field of the example in the JSON document.
    fn field(&self) -> &'static str;

    /// Runs the example. Cancelled if the demo is stopped.
    fn run<'a>(&'a self, context: &'a DemoContext<'a>) -> BoxFuture<'a, anyhow::Result<DemoResult>>;
}

/// What an example works with: the gateway, the small web, and command lines for the data directory.
#[derive(Debug)]
pub struct DemoContext<'a> {
    pub(crate) client: Client,
    pub(crate) web: &'a Web,
    pub(crate) shell: &'a Shell,
}

/// Result of an example.
#[derive(Debug)]
pub struct DemoResult {
    /// Value in the JSON document.
    pub json: Value,
    /// Heading for people.
    pub heading: &'static str,
    /// Command line that shows the same.
    pub command: String,
    /// Titles and values for people.
    pub lines: Vec<(&'static str, String)>,
}
