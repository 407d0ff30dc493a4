//! Tests of sanitising.

use super::*;
use proptest::prelude::*;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 0, 1][..], &length, payload, &[0xCE]].concat()
}

/// Property frame for a body of three bytes.
fn properties(flags: u16, rest: &[u8]) -> Vec<u8> {
    let before = [&[0, 60, 0, 0][..], &3_u64.to_be_bytes()].concat();
    frame(PROPERTIES, &[&before[..], &flags.to_be_bytes(), rest].concat())
}

const HEADERS: u16 = 1 << 13;
const PRIORITY: u16 = 1 << 11;
const MESSAGE_ID: u16 = 1 << 7;

/// Result of filtering bytes that arrive in steps, read into a buffer of the given size.
fn read(bytes: &[u8], step: usize, buffer: usize) -> Vec<u8> {
    let mut frames = FrameFilter::default();
    let mut buffer = vec![0; buffer];
    let mut all = Vec::new();
    let mut rest = bytes;
    let mut give = |frames: &mut FrameFilter, all: &mut Vec<u8>| loop {
        match frames.read(&mut buffer) {
            0 => break,
            given => all.extend_from_slice(&buffer[..given]),
        }
    };
    while !rest.is_empty() {
        let (now, later) = rest.split_at(step.min(rest.len()));
        let (straight, now) = now.split_at(frames.pass_through.min(now.len()));
        frames.pass_through -= straight.len();
        all.extend_from_slice(straight);
        frames.write(now);
        give(&mut frames, &mut all);
        rest = later;
    }
    frames.finish();
    give(&mut frames, &mut all);
    assert!(frames.is_empty());
    all
}

#[test]
fn invalid_utf8_is_replaced_in_any_chunking() {
    let table = |name: &[u8]| {
        let inner = [&[u8::try_from(name.len()).unwrap()][..], name, b"S\0\0\0\x02\xFF\xFE"].concat();
        let entry = [&b"\x01tF"[..], &u32::try_from(inner.len()).unwrap().to_be_bytes(), &inner].concat();
        [&u32::try_from(entry.len()).unwrap().to_be_bytes()[..], &entry].concat()
    };
    let message = |name: &[u8], id: &[u8]| {
        let id = [&[u8::try_from(id.len()).unwrap()][..], id].concat();
        properties(HEADERS | PRIORITY | MESSAGE_ID, &[&table(name)[..], &[9], &id].concat())
    };
    let delivery = |key: &[u8]| {
        let rest = [&b"\0\x3C\0\x3C\x01c12345678\0\0"[..], &[u8::try_from(key.len()).unwrap()], key].concat();
        frame(METHOD, &rest)
    };
    let body = frame(BODY, b"\xFF\xFF\xFF");
    let received = [delivery(b"caf\xE9"), message(b"gr\xFC\xDFe", b"\xE6\x97"), body.clone()].concat();
    let sanitized = [delivery(b"caf?"), message(b"gr??e", b"??"), body].concat();
    for step in 1..received.len() + 1 {
        assert_eq!(read(&received, step, 5), sanitized, "in steps of {step}");
    }
    assert_eq!(read(&sanitized, 7, 64), sanitized, "valid frames pass unchanged");
}

#[test]
fn malformed_properties_are_removed() {
    let unknown_kind = properties(HEADERS, b"\0\0\0\x03\x01aZ");
    let too_short = properties(MESSAGE_ID, b"\x09abc");
    let too_long = properties(MESSAGE_ID, b"\x01abc");
    for frame in [unknown_kind, too_short, too_long] {
        assert_eq!(read(&frame, 100, 100), properties(0, b""), "{frame:?}");
    }
}

#[test]
fn other_protocols_and_truncated_frames_pass() {
    let refusal = b"AMQP\0\0\x09\x01 and \xFF whatever";
    assert_eq!(read(refusal, 3, 4), refusal);
    assert_eq!(read(&frame(METHOD, b"half")[..9], 3, 4), &frame(METHOD, b"half")[..9]);
}

proptest! {
    #[test]
    fn arbitrary_frames_do_not_panic_and_bodies_pass(
        frames in prop::collection::vec((prop::sample::select(vec![METHOD, PROPERTIES, BODY]), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
        step in 1..200_usize,
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
        let whole = read(&bytes, bytes.len().max(1), 1000);
        prop_assert_eq!(&read(&bytes, step, 1000), &whole);
        let bodies = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let mut rest = bytes;
            let mut bodies = Vec::new();
            while let [kind, _, _, a, b, c, d, ..] = *rest {
                let length = HEADER + u32::from_be_bytes([a, b, c, d]) as usize + END;
                let (frame, after) = rest.split_at(length);
                if kind == BODY {
                    bodies.push(frame.to_vec());
                }
                rest = after;
            }
            bodies
        };
        prop_assert_eq!(bodies(&whole), bodies(&bytes));
    }
}
