//! Size limit for the headers of a copy: all of them have to fit into one frame.
//!
//! Another program may fill a frame completely. With the broker's bookkeeping added, the server would close the connection
//! for the copy, on each attempt again.

use crate::wire::short;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// Header with the names of the headers that were left out of a copy.
pub(crate) const LEFT_OUT: &str = "x-crawlway-left-out";

/// Maximum size of the kept headers on the wire, in bytes. A frame has 128 KiB; the rest is for the other properties, for the
/// broker's bookkeeping, and for the headers that the server adds when a message expires from a delay queue.
const MAX_BYTES: usize = 100 << 10;
/// Maximum length of [`LEFT_OUT`].
const MAX_NAMES_BYTES: usize = 1024;

/// Headers for a copy, without the largest ones if they exceed the limit together.
pub(crate) fn trim_headers(headers: Vec<(&ShortString, &AMQPValue)>) -> FieldTable {
    let mut total: usize = headers.iter().map(|(name, value)| header_size(name, value)).sum();
    let mut kept = headers;
    kept.sort_by_key(|(name, value)| header_size(name, value));
    let mut left_out = Vec::new();
    while total > MAX_BYTES
        && let Some((name, value)) = kept.pop()
    {
        total -= header_size(name, value);
        left_out.push(name.as_str());
    }
    let mut table = FieldTable::default();
    for (name, value) in kept {
        table.insert(name.clone(), value.clone());
    }
    if !left_out.is_empty() {
        tracing::warn!(?left_out, "headers of another program exceed the frame and are left out of the copy");
        let names = left_out.join(", ");
        let names = crawlway_broker::limits::truncated(&names, MAX_NAMES_BYTES);
        table.insert(short(LEFT_OUT), AMQPValue::LongString(names.as_bytes().to_vec().into()));
    }
    table
}

fn header_size(name: &ShortString, value: &AMQPValue) -> usize {
    1 + name.as_str().len() + value_size(value)
}

/// Upper bound of a value's size on the wire, in bytes.
fn value_size(value: &AMQPValue) -> usize {
    /// Type and length.
    const PREFIX: usize = 5;
    match value {
        AMQPValue::LongString(text) => PREFIX + text.as_bytes().len(),
        AMQPValue::ShortString(text) => PREFIX + text.as_str().len(),
        AMQPValue::ByteArray(bytes) => PREFIX + bytes.len(),
        AMQPValue::FieldArray(values) => PREFIX + values.as_slice().iter().map(value_size).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            PREFIX + table.into_iter().map(|(name, value)| header_size(name, value)).sum::<usize>()
        }
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_headers_are_left_out_and_named() {
        let text = |length: usize| AMQPValue::LongString(vec![b'x'; length].into());
        let [small, large, larger] = [("small", 10), ("large", 60 << 10), ("larger", 61 << 10)]
            .map(|(name, length)| (short(name), text(length)));
        let table = trim_headers(vec![(&small.0, &small.1), (&larger.0, &larger.1), (&large.0, &large.1)]);
        let names: Vec<&str> = table.inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["large", "small", LEFT_OUT]);
        assert_eq!(table.inner().get(LEFT_OUT), Some(&AMQPValue::LongString("larger".into())));
        let table = trim_headers(vec![(&small.0, &small.1), (&large.0, &large.1)]);
        assert_eq!(table.inner().len(), 2, "nothing is left out");
    }
}
