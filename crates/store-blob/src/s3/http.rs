//! HTTP client for S3: hyper, with the TLS files of the settings.

use crawlway_tls::{ClientTls, Stream, dial};
use futures::future::BoxFuture;
use http::Uri;
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
        HttpResponseBody, HttpService,
    },
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout from a request to the headers of its response, the upload of a part included.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Connector of the client library.
#[derive(Debug, Clone)]
pub(super) struct HyperConnector(HttpClient);

impl HyperConnector {
    pub(super) fn new(tls: ClientTls) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(Dialler(tls));
        Self(HttpClient::new(Hyper(client)))
    }

    pub(super) fn client(&self) -> HttpClient {
        self.0.clone()
    }
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

#[derive(Debug)]
struct Hyper(Client<Dialler, HttpRequestBody>);

#[async_trait::async_trait]
impl HttpService for Hyper {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = match tokio::time::timeout(RESPONSE_TIMEOUT, self.0.request(request)).await {
            Ok(response) => response.map_err(|error| {
                let is_connect = error.is_connect();
                HttpError::new(
                    if is_connect { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted },
                    error,
                )
            })?,
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        };
        let (parts, body) = response.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Opens connections.
#[derive(Debug, Clone)]
struct Dialler(ClientTls);

impl tower::Service<Uri> for Dialler {
    type Response = TokioIo<Dialled>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<Dialled>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = (uri.scheme_str() == Some("https")).then(|| self.0.clone());
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
            let dialling = tokio::time::timeout(CONNECT_TIMEOUT, dial(host, port, tls.as_ref()));
            let stream = dialling.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let stream = stream.map_err(|error| match tls.and_then(|tls| tls.advice_for(&error)) {
                Some(advice) => io::Error::new(error.kind(), advice),
                None => error,
            })?;
            Ok(TokioIo::new(Dialled(stream)))
        })
    }
}

/// Open connection, with or without TLS.
struct Dialled(Box<dyn Stream>);

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
