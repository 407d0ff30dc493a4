//! Reading a body within its bounds, and undoing its content encodings, bombs included.

use crate::{
    client::Beyond,
    error::{Code, Trouble},
    limits::Limits,
    meter::{Meter, Pieces},
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io::{self, Read};

/// More encodings on top of each other than this serve nobody.
const MAX_LAYERS: usize = 3;

/// Reads the body as it is sent; `false` if only its first part was wanted and there is more.
pub(crate) async fn read(
    mut body: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    beyond: Beyond,
    meter: &Meter,
) -> Result<(Bytes, bool), Trouble> {
    let limit = limits.body_bytes;
    let too_large = |what: String| Trouble::new(Code::BodyTooLarge, format!("{what}, the limit is {limit}"));
    let announced = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = announced.filter(|length| *length > limit as u64 && beyond == Beyond::Refuse) {
        return Err(too_large(format!("{length} bytes are announced")));
    }
    let mut read = Collected { whole: Bytes::new(), grown: BytesMut::new() };
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error, read.len(), announced))?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        pieces.add(bytes)?;
        meter.content(bytes);
        let Ok(mut data) = frame.into_data() else { continue };
        let room = limit - read.len();
        if data.len() > room {
            if beyond == Beyond::Refuse {
                return Err(too_large(format!("more than {limit} bytes were sent")));
            }
            data.truncate(room);
            read.add(data, announced);
            return Ok((read.into_bytes(), false));
        }
        read.add(data, announced);
    }
    Ok((read.into_bytes(), true))
}

/// A body as it comes in. Most come in one piece, which is kept as it is; others grow together.
struct Collected {
    whole: Bytes,
    grown: BytesMut,
}

/// What is set aside at once for a body that announces its length; more only once it is there.
const TRUSTED_LENGTH: u64 = 64 << 10;

impl Collected {
    fn len(&self) -> usize {
        self.whole.len() + self.grown.len()
    }

    fn add(&mut self, data: Bytes, announced: Option<u64>) {
        if self.len() == 0 {
            self.whole = data;
            return;
        }
        if self.grown.is_empty() {
            let expected = announced.unwrap_or(0).min(TRUSTED_LENGTH) as usize;
            self.grown.reserve(expected.max(self.whole.len() + data.len()));
            self.grown.extend_from_slice(&std::mem::take(&mut self.whole));
        }
        self.grown.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.grown.is_empty() { self.whole } else { self.grown.freeze() }
    }
}

fn broken(error: &hyper::Error, read: usize, announced: Option<u64>) -> Trouble {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    let short = announced.is_some_and(|length| (read as u64) < length);
    let code = match source.map(io::Error::kind) {
        // Chunks that are none, or whose lengths are no numbers.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => Code::HttpProtocol,
        Some(io::ErrorKind::UnexpectedEof) => Code::HttpLength,
        _ if short || error.is_incomplete_message() => Code::HttpLength,
        _ if error.is_parse() => Code::HttpProtocol,
        _ => Code::Reset,
    };
    let expected = announced.map_or_else(String::new, |length| format!(" of {length}"));
    let cause = source.map_or_else(|| error.to_string(), io::Error::to_string);
    Trouble::new(code, format!("the body broke off after {read}{expected} bytes: {cause}"))
}

/// Bodies up to this size are decompressed where they were read, as far as [`SMALL_DECODED`]: that costs less than the hand-over.
const SMALL_BODY: usize = 64 << 10;
/// What becomes larger than this is decompressed where nobody else has to wait for it. A small body can become as large as its
/// limit allows.
const SMALL_DECODED: usize = 256 << 10;

/// Undoes the content encodings, away from the threads that serve connections if it is much.
pub(crate) async fn decode_aside(
    raw: Bytes,
    headers: &HeaderMap,
    limits: &Limits,
    beyond: Beyond,
) -> Result<Bytes, Trouble> {
    if !headers.contains_key(http::header::CONTENT_ENCODING) {
        return decode(raw, headers, limits, beyond);
    }
    if raw.len() < SMALL_BODY {
        let small = Limits { decoded_bytes: limits.decoded_bytes.min(SMALL_DECODED), ..limits.clone() };
        if let Ok(decoded) = decode(raw.clone(), headers, &small, Beyond::Refuse) {
            return Ok(decoded);
        }
    }
    let (headers, limits) = (headers.clone(), limits.clone());
    let decoded = tokio::task::spawn_blocking(move || decode(raw, &headers, &limits, beyond)).await;
    decoded.unwrap_or_else(|error| Err(Trouble::new(Code::BodyEncoding, error.to_string())))
}

/// Undoes the content encodings, last one first.
fn decode(body: Bytes, headers: &HeaderMap, limits: &Limits, beyond: Beyond) -> Result<Bytes, Trouble> {
    let mut layers = Vec::new();
    for value in headers.get_all(http::header::CONTENT_ENCODING) {
        let value = value
            .to_str()
            .map_err(|_| Trouble::new(Code::BodyEncoding, "its content encoding is not text"))?;
        layers.extend(value.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    layers.retain(|name| !name.is_empty() && name != "identity");
    if layers.len() > MAX_LAYERS {
        return Err(Trouble::new(
            Code::BodyEncoding,
            format!("it is encoded {} times, {MAX_LAYERS} are allowed", layers.len()),
        ));
    }
    let mut body = body;
    // Servers send empty bodies with any encoding: there is nothing to undo then.
    while let Some(layer) = layers.pop().filter(|_| !body.is_empty()) {
        body = undo(&layer, &body, limits.decoded_bytes, beyond)?;
    }
    if body.len() > limits.decoded_bytes && beyond == Beyond::Cut {
        return Ok(body.slice(..limits.decoded_bytes));
    }
    if body.len() > limits.decoded_bytes {
        return Err(Trouble::new(
            Code::BodyTooLarge,
            format!("{} bytes, the limit is {}", body.len(), limits.decoded_bytes),
        ));
    }
    Ok(body)
}

fn undo(layer: &str, body: &[u8], limit: usize, beyond: Beyond) -> Result<Bytes, Trouble> {
    match layer {
        "gzip" | "x-gzip" => bounded(flate2::read::MultiGzDecoder::new(body), layer, limit, beyond),
        "deflate" => {
            // Meant is zlib; some servers send the bare stream.
            match bounded(flate2::read::ZlibDecoder::new(body), layer, limit, beyond) {
                Err(trouble) if trouble.code == Code::BodyEncoding => {
                    bounded(flate2::read::DeflateDecoder::new(body), layer, limit, beyond)
                }
                other => other,
            }
        }
        "br" => bounded(brotli_decompressor::Decompressor::new(body, 16 << 10), layer, limit, beyond),
        "zstd" => {
            let mut decoder =
                zstd::stream::read::Decoder::new(body).map_err(|error| garbled(layer, &error))?;
            // A window of 8 MiB is what the web may use; a larger one is an attack on memory.
            decoder.window_log_max(23).map_err(|error| garbled(layer, &error))?;
            bounded(decoder, layer, limit, beyond)
        }
        other => Err(Trouble::new(Code::BodyEncoding, format!("its content encoding `{other}` is unknown"))),
    }
}

fn garbled(layer: &str, error: &io::Error) -> Trouble {
    Trouble::new(Code::BodyEncoding, format!("it is not {layer}: {error}"))
}

fn bounded(decoder: impl Read, layer: &str, limit: usize, beyond: Beyond) -> Result<Bytes, Trouble> {
    let mut decoded = Vec::new();
    let mut decoder = decoder.take(limit as u64 + 1);
    if let Err(error) = decoder.read_to_end(&mut decoded)
        && (beyond == Beyond::Refuse || decoded.is_empty())
    {
        return Err(garbled(layer, &error));
    }
    if decoded.len() > limit && beyond == Beyond::Cut {
        decoded.truncate(limit);
    }
    if decoded.len() > limit {
        return Err(Trouble::new(Code::BodyBomb, format!("it decompresses to more than {limit} bytes")));
    }
    Ok(decoded.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header};
    use std::{
        io::Write,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    fn gzip(size: usize) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![0; size]).unwrap();
        encoder.finish().unwrap().into()
    }

    #[tokio::test]
    async fn a_small_body_that_becomes_large_holds_up_no_thread_that_serves_connections() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let limits = Limits::default();
        for (size, is_aside) in [(100 << 10, false), (30 << 20, true)] {
            let body = gzip(size);
            assert!(body.len() < SMALL_BODY, "it is small on the wire");
            let mut decoding = pin!(decode_aside(body, &headers, &limits, Beyond::Refuse));
            let first = decoding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(first.is_pending(), is_aside, "{size} bytes");
            let decoded = match first {
                Poll::Ready(decoded) => decoded,
                Poll::Pending => decoding.await,
            };
            assert_eq!(decoded.unwrap().len(), size);
        }
    }
}
