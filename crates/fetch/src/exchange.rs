//! Sending one request on a connection, and what it means when no answer comes.

use crate::{
    connect::{NoBody, Protocol, Sender},
    error::{Code, Trouble},
};
use http::{HeaderMap, HeaderValue, Method, header};
use hyper::{Response, body::Incoming};

/// How an exchange went wrong.
pub(crate) enum Exchange {
    /// The connection was closed before the request was sent.
    NeverSent(Trouble),
    /// The connection was closed before a byte of an answer.
    NeverAnswered(Trouble),
    Failed(Trouble),
}

impl Exchange {
    pub(crate) fn into_trouble(self) -> Trouble {
        match self {
            Exchange::NeverSent(trouble) | Exchange::NeverAnswered(trouble) | Exchange::Failed(trouble) => {
                trouble
            }
        }
    }
}

pub(crate) async fn send(
    sender: &mut Sender,
    url: &url::Url,
    mut headers: HeaderMap,
) -> Result<Response<Incoming>, hyper::Error> {
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br, zstd, deflate"));
    let mut request = http::Request::new(NoBody::new());
    *request.method_mut() = Method::GET;
    let target = match sender.protocol {
        Protocol::Http1(_) => {
            if let Ok(host) = HeaderValue::from_str(authority(url).as_str()) {
                headers.insert(header::HOST, host);
            }
            url[url::Position::BeforePath..url::Position::AfterQuery].to_owned()
        }
        Protocol::Http2(_) => url[..url::Position::AfterQuery].to_owned(),
    };
    if let Ok(uri) = target.parse() {
        *request.uri_mut() = uri;
    }
    *request.headers_mut() = headers;
    match &mut sender.protocol {
        Protocol::Http1(sender) => sender.send_request(request).await,
        Protocol::Http2(sender) => sender.send_request(request).await,
    }
}

pub(crate) fn authority(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

pub(crate) fn unanswered(error: &hyper::Error) -> Exchange {
    let text = chain(error);
    // Hyper has no other way to tell these apart.
    if ["too large", "too many headers", "too_many_continuations"].iter().any(|mark| text.contains(mark)) {
        return Exchange::Failed(Trouble::new(Code::HeadersTooLarge, text));
    }
    // What HTTP/2 detects, and does not receive, is a breach of its rules by the server.
    if error.is_parse() || error.is_parse_status() || text.contains(" error detected: ") {
        return Exchange::Failed(Trouble::new(Code::HttpProtocol, text));
    }
    let trouble = Trouble::new(Code::Reset, format!("no answer: {text}"));
    if error.is_canceled() { Exchange::NeverSent(trouble) } else { Exchange::NeverAnswered(trouble) }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
