//! One HTTP request on a connection, and the classification of its errors.

use crate::{
    connect::{NoBody, Protocol, Sender},
    error::{FetchCode, HopError},
};
use http::{HeaderMap, HeaderValue, Method, header};
use hyper::{Response, body::Incoming};

/// Error of one request and its response.
pub(crate) enum ExchangeError {
    /// The connection was closed before the request was sent.
    NotSent(HopError),
    /// The connection was closed before the first byte of a response.
    NoResponse(HopError),
    Failed(HopError),
}

impl ExchangeError {
    pub(crate) fn into_hop_error(self) -> HopError {
        let (Self::NotSent(error) | Self::NoResponse(error) | Self::Failed(error)) = self;
        error
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

pub(crate) fn send_error(error: &hyper::Error) -> ExchangeError {
    let text = chain(error);
    // hyper distinguishes these by their text only.
    if ["too large", "too many headers", "too_many_continuations"].iter().any(|mark| text.contains(mark)) {
        return ExchangeError::Failed(HopError::new(FetchCode::HeadersTooLarge, text));
    }
    // An HTTP/2 error that is detected, not received, is a protocol violation by the server.
    if error.is_parse() || error.is_parse_status() || text.contains(" error detected: ") {
        return ExchangeError::Failed(HopError::new(FetchCode::HttpProtocol, text));
    }
    let reset = HopError::new(FetchCode::Reset, format!("no response: {text}"));
    if error.is_canceled() { ExchangeError::NotSent(reset) } else { ExchangeError::NoResponse(reset) }
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
