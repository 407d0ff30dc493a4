//! Response bodies: read within their limits, and decompressed with protection against decompression bombs.

use crate::{
    client::Oversize,
    error::{FetchCode, HopError},
    flood::{FloodLimit, FrameCounter},
    limits::Limits,
    memory::{MemoryError, MemoryReservation},
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io::{self, Cursor, Read};

/// Maximum number of nested content encodings.
const MAX_ENCODINGS: usize = 3;

/// Reads the body as sent; `false` if it was truncated at the limit.
pub(crate) async fn read(
    mut body: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    oversize: Oversize,
    flood_limit: &FloodLimit,
    share: &mut MemoryReservation,
) -> Result<(Bytes, bool), HopError> {
    let limit = limits.body_bytes;
    let too_large =
        |size: String| HopError::new(FetchCode::BodyTooLarge, format!("{size}, the limit is {limit}"));
    let announced = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = announced.filter(|length| *length > limit as u64 && oversize == Oversize::Reject) {
        return Err(too_large(format!("Content-Length is {length} bytes")));
    }
    let expected = usize::try_from(announced.unwrap_or(0)).unwrap_or(usize::MAX).min(limit);
    reserve(share, expected).await?;
    let mut read = BodyBuffer { single: Bytes::new(), joined: BytesMut::new() };
    let mut frames = FrameCounter::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| read_error(&error, read.len(), announced))?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        frames.add(bytes)?;
        flood_limit.add_content(bytes);
        let Ok(mut data) = frame.into_data() else { continue };
        let room = limit - read.len();
        if data.len() > room {
            if oversize == Oversize::Reject {
                return Err(too_large(format!("more than {limit} bytes")));
            }
            data.truncate(room);
            read.add(data, expected);
            return Ok((read.into_bytes(), false));
        }
        reserve(share, read.capacity_with(&data, expected)).await?;
        read.add(data, expected);
    }
    Ok((read.into_bytes(), true))
}

/// Buffer of a body. A body of one frame, as most are, is not copied; others are joined.
struct BodyBuffer {
    single: Bytes,
    joined: BytesMut,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.single.len() + self.joined.len()
    }

    /// Memory needed once `data` is added: the announced length, otherwise up to twice the content.
    fn capacity_with(&self, data: &Bytes, expected: usize) -> usize {
        let len = self.len() + data.len();
        if len <= expected || self.len() == 0 { len.max(expected) } else { 2 * len }
    }

    fn add(&mut self, data: Bytes, expected: usize) {
        if self.len() == 0 {
            self.single = data;
            return;
        }
        if self.joined.is_empty() {
            self.joined.reserve(expected.max(self.single.len() + data.len()));
            self.joined.extend_from_slice(&std::mem::take(&mut self.single));
        }
        self.joined.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.single } else { self.joined.freeze() }
    }
}

fn read_error(error: &hyper::Error, read: usize, announced: Option<u64>) -> HopError {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    let short = announced.is_some_and(|length| (read as u64) < length);
    let code = match source.map(io::Error::kind) {
        // Malformed chunks.
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => FetchCode::HttpProtocol,
        Some(io::ErrorKind::UnexpectedEof) => FetchCode::HttpLength,
        _ if short || error.is_incomplete_message() => FetchCode::HttpLength,
        _ if error.is_parse() => FetchCode::HttpProtocol,
        _ => FetchCode::Reset,
    };
    let expected = announced.map_or_else(String::new, |length| format!(" of {length}"));
    let cause = source.map_or_else(|| error.to_string(), io::Error::to_string);
    HopError::new(code, format!("the body ended after {read}{expected} bytes: {cause}"))
}

/// Grows the page's part of the memory budget to this size.
async fn reserve(share: &mut MemoryReservation, bytes: usize) -> Result<(), HopError> {
    share.grow_to(bytes).await.map_err(|error| match error {
        MemoryError::PageTooLarge => HopError::new(
            FetchCode::BodyTooLarge,
            format!("{bytes} bytes of memory needed, the limit of a page is {}", share.max_page_bytes()),
        ),
        MemoryError::Exhausted => {
            HopError::new(FetchCode::MemoryWait, format!("the memory budget has no {bytes} bytes left"))
        }
    })
}

/// Decompresses a body, last content encoding first.
pub(crate) async fn decode(
    body: Bytes,
    headers: &HeaderMap,
    limits: &Limits,
    oversize: Oversize,
    share: &mut MemoryReservation,
) -> Result<Bytes, HopError> {
    let mut encodings = Vec::new();
    for value in headers.get_all(http::header::CONTENT_ENCODING) {
        let value = value
            .to_str()
            .map_err(|_| HopError::new(FetchCode::BodyEncoding, "the Content-Encoding is not ASCII"))?;
        encodings.extend(value.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    encodings.retain(|name| !name.is_empty() && name != "identity");
    if encodings.len() > MAX_ENCODINGS {
        return Err(HopError::new(
            FetchCode::BodyEncoding,
            format!("{} nested content encodings, the limit is {MAX_ENCODINGS}", encodings.len()),
        ));
    }
    let mut body = body;
    // An empty body has no encoding, whatever its header says.
    while let Some(encoding) = encodings.pop().filter(|_| !body.is_empty()) {
        body = decompress(&encoding, body, limits.decoded_bytes, oversize, share).await?;
    }
    if body.len() > limits.decoded_bytes && oversize == Oversize::Truncate {
        return Ok(body.slice(..limits.decoded_bytes));
    }
    if body.len() > limits.decoded_bytes {
        return Err(HopError::new(
            FetchCode::BodyTooLarge,
            format!("{} bytes, the limit is {}", body.len(), limits.decoded_bytes),
        ));
    }
    Ok(body)
}

async fn decompress(
    encoding: &str,
    body: Bytes,
    limit: usize,
    oversize: Oversize,
    share: &mut MemoryReservation,
) -> Result<Bytes, HopError> {
    let raw = body.len();
    let input = Cursor::new(body.clone());
    let decoder: Decoder = match encoding {
        "gzip" | "x-gzip" => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        "deflate" => {
            // The standard means zlib; some servers send raw deflate.
            let zlib = Box::new(flate2::bufread::ZlibDecoder::new(input));
            match decompress_up_to(zlib, raw, encoding, limit, oversize, share).await {
                Err(error) if error.code == FetchCode::BodyEncoding => {
                    Box::new(flate2::bufread::DeflateDecoder::new(Cursor::new(body)))
                }
                other => return other,
            }
        }
        "br" => Box::new(brotli_decompressor::Decompressor::new(input, 16 << 10)),
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)
                .map_err(|error| encoding_error(encoding, &error))?;
            // RFC 9659 limits the window to 8 MiB.
            decoder.window_log_max(23).map_err(|error| encoding_error(encoding, &error))?;
            Box::new(decoder)
        }
        other => {
            return Err(HopError::new(
                FetchCode::BodyEncoding,
                format!("unknown content encoding `{other}`"),
            ));
        }
    };
    decompress_up_to(decoder, raw, encoding, limit, oversize, share).await
}

fn encoding_error(encoding: &str, error: &io::Error) -> HopError {
    HopError::new(FetchCode::BodyEncoding, format!("the body is not valid {encoding}: {error}"))
}

type Decoder = Box<dyn Read + Send>;

/// Size up to which a body is decompressed on the async thread; most pages are no larger, and a blocking task costs more.
const FIRST_STEP: usize = 256 << 10;
/// Size of each further step, in a blocking task. Memory is reserved before each step.
const STEP: usize = 2 << 20;

/// Decompresses up to the limit, with memory reserved for input and output.
async fn decompress_up_to(
    mut decoder: Decoder,
    raw: usize,
    encoding: &str,
    limit: usize,
    oversize: Oversize,
    share: &mut MemoryReservation,
) -> Result<Bytes, HopError> {
    reserve(share, raw + FIRST_STEP.min(limit)).await?;
    let mut decoded = Vec::new();
    let mut more = step(&mut decoder, &mut decoded, FIRST_STEP.min(limit + 1));
    while let Ok(true) = more {
        if decoded.len() > limit {
            break;
        }
        let max = STEP.min(limit + 1 - decoded.len());
        reserve(share, raw + decoded.len() + max).await?;
        let stepping = tokio::task::spawn_blocking(move || {
            let more = step(&mut decoder, &mut decoded, max);
            (decoder, decoded, more)
        });
        (decoder, decoded, more) =
            stepping.await.map_err(|error| HopError::new(FetchCode::BodyEncoding, error.to_string()))?;
    }
    if let Err(error) = more
        && (oversize == Oversize::Reject || decoded.is_empty())
    {
        return Err(encoding_error(encoding, &error));
    }
    if decoded.len() > limit && oversize == Oversize::Truncate {
        decoded.truncate(limit);
    }
    if decoded.len() > limit {
        return Err(HopError::new(
            FetchCode::BodyBomb,
            format!("the body decompresses to more than {limit} bytes"),
        ));
    }
    Ok(decoded.into())
}

/// Decompresses up to `max` more bytes; `false` at the end of the stream.
fn step(decoder: &mut Decoder, decoded: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    // Exactly the reserved size, where a vector would double itself.
    if max > FIRST_STEP {
        decoded.reserve_exact(max);
    }
    Ok(decoder.take(max as u64).read_to_end(decoded)? == max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryBudget;
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
    async fn a_large_body_is_decompressed_off_the_async_threads() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let limits = Limits::default();
        for (size, is_blocking_task) in [(100 << 10, false), (30 << 20, true)] {
            let (body, mut share) = (gzip(size), MemoryBudget::default().reserve());
            let mut decoding = pin!(decode(body, &headers, &limits, Oversize::Reject, &mut share));
            let first = decoding.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(first.is_pending(), is_blocking_task, "{size} bytes");
            let decoded = match first {
                Poll::Ready(decoded) => decoded,
                Poll::Pending => decoding.await,
            };
            assert_eq!(decoded.unwrap().len(), size);
        }
    }
}
