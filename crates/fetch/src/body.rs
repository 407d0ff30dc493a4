//! Reading a body within its bounds, and undoing its content encodings, bombs included.

use crate::{
    client::Beyond,
    error::{Code, Trouble},
    limits::Limits,
    memory::{NoShare, Share},
    meter::{Meter, Pieces},
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::io::{self, Cursor, Read};

/// More encodings on top of each other than this serve nobody.
const MAX_LAYERS: usize = 3;

/// Reads the body as it is sent; `false` if only its first part was wanted and there is more.
pub(crate) async fn read(
    mut body: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    beyond: Beyond,
    meter: &Meter,
    share: &mut Share,
) -> Result<(Bytes, bool), Trouble> {
    let limit = limits.body_bytes;
    let too_large = |what: String| Trouble::new(Code::BodyTooLarge, format!("{what}, the limit is {limit}"));
    let announced = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = announced.filter(|length| *length > limit as u64 && beyond == Beyond::Refuse) {
        return Err(too_large(format!("{length} bytes are announced")));
    }
    let expected = usize::try_from(announced.unwrap_or(0)).unwrap_or(usize::MAX).min(limit);
    cover(share, expected).await?;
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
            read.add(data, expected);
            return Ok((read.into_bytes(), false));
        }
        cover(share, read.len_with(&data, expected)).await?;
        read.add(data, expected);
    }
    Ok((read.into_bytes(), true))
}

/// A body as it comes in. Most come in one piece, which is kept as it is; others grow together.
struct Collected {
    whole: Bytes,
    grown: BytesMut,
}

impl Collected {
    fn len(&self) -> usize {
        self.whole.len() + self.grown.len()
    }

    /// What it takes once this is added: as much as is announced, or else up to twice what is there.
    fn len_with(&self, data: &Bytes, expected: usize) -> usize {
        let len = self.len() + data.len();
        if len <= expected || self.len() == 0 { len.max(expected) } else { 2 * len }
    }

    fn add(&mut self, data: Bytes, expected: usize) {
        if self.len() == 0 {
            self.whole = data;
            return;
        }
        if self.grown.is_empty() {
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

/// Has the page's share of the memory be this large.
async fn cover(share: &mut Share, bytes: usize) -> Result<(), Trouble> {
    share.cover(bytes).await.map_err(|no_share| match no_share {
        NoShare::TooMuch => Trouble::new(
            Code::BodyTooLarge,
            format!("it would take {bytes} bytes of memory, and a page may take {}", share.page_most()),
        ),
        NoShare::UsedUp => Trouble::new(Code::MemoryWait, format!("there are no {bytes} bytes left for it")),
    })
}

/// Undoes the content encodings, last one first.
pub(crate) async fn decode(
    body: Bytes,
    headers: &HeaderMap,
    limits: &Limits,
    beyond: Beyond,
    share: &mut Share,
) -> Result<Bytes, Trouble> {
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
        body = undo(&layer, body, limits.decoded_bytes, beyond, share).await?;
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

async fn undo(
    layer: &str,
    body: Bytes,
    limit: usize,
    beyond: Beyond,
    share: &mut Share,
) -> Result<Bytes, Trouble> {
    let raw = body.len();
    let input = Cursor::new(body.clone());
    let decoder: Decoder = match layer {
        "gzip" | "x-gzip" => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        "deflate" => {
            // Meant is zlib; some servers send the bare stream.
            let zlib = Box::new(flate2::bufread::ZlibDecoder::new(input));
            match bounded(zlib, raw, layer, limit, beyond, share).await {
                Err(trouble) if trouble.code == Code::BodyEncoding => {
                    Box::new(flate2::bufread::DeflateDecoder::new(Cursor::new(body)))
                }
                other => return other,
            }
        }
        "br" => Box::new(brotli_decompressor::Decompressor::new(input, 16 << 10)),
        "zstd" => {
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(input).map_err(|error| garbled(layer, &error))?;
            // A window of 8 MiB is what the web may use; a larger one is an attack on memory.
            decoder.window_log_max(23).map_err(|error| garbled(layer, &error))?;
            Box::new(decoder)
        }
        other => {
            return Err(Trouble::new(
                Code::BodyEncoding,
                format!("its content encoding `{other}` is unknown"),
            ));
        }
    };
    bounded(decoder, raw, layer, limit, beyond, share).await
}

fn garbled(layer: &str, error: &io::Error) -> Trouble {
    Trouble::new(Code::BodyEncoding, format!("it is not {layer}: {error}"))
}

type Decoder = Box<dyn Read + Send>;

/// So much is decompressed where others wait for it; a usual page is not much larger, and the hand-over costs too.
const FIRST_STEP: usize = 256 << 10;
/// So much is decompressed at a time elsewhere. In between the memory for it is asked for.
const STEP: usize = 2 << 20;

/// Decompresses up to a limit, with memory for what goes in and what comes out.
async fn bounded(
    mut decoder: Decoder,
    raw: usize,
    layer: &str,
    limit: usize,
    beyond: Beyond,
    share: &mut Share,
) -> Result<Bytes, Trouble> {
    cover(share, raw + FIRST_STEP.min(limit)).await?;
    let mut decoded = Vec::new();
    let mut more = step(&mut decoder, &mut decoded, FIRST_STEP.min(limit + 1));
    while let Ok(true) = more {
        if decoded.len() > limit {
            break;
        }
        let most = STEP.min(limit + 1 - decoded.len());
        cover(share, raw + decoded.len() + most).await?;
        let stepping = tokio::task::spawn_blocking(move || {
            let more = step(&mut decoder, &mut decoded, most);
            (decoder, decoded, more)
        });
        (decoder, decoded, more) =
            stepping.await.map_err(|error| Trouble::new(Code::BodyEncoding, error.to_string()))?;
    }
    if let Err(error) = more
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

/// Decompresses up to so many bytes more, and says whether there may be still more.
fn step(decoder: &mut Decoder, decoded: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    // Small ones grow as they come; large ones get what was asked for, and not twice as much.
    if most > FIRST_STEP {
        decoded.reserve_exact(most);
    }
    Ok(decoder.take(most as u64).read_to_end(decoded)? == most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
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
            let (body, mut share) = (gzip(size), Memory::default().share());
            let mut decoding = pin!(decode(body, &headers, &limits, Beyond::Refuse, &mut share));
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
