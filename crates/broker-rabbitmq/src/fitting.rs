//! What of the headers that a message came with is kept when it is written again: all of them have to fit into one frame.
//!
//! Another program may have filled a frame to its brim. With our bookkeeping added, the server would close the connection for
//! the copy, and do so again with each further try.

use crate::wire::short;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// The names of headers that were left out of a copy.
pub(crate) const LEFT_OUT: &str = "x-crawlway-left-out";

/// What may be kept, in bytes on the wire. A frame has 128 KiB, and the rest is for the other properties, for our bookkeeping,
/// and for what the server adds when a tier hands the message on. More than any message of ours has.
const MOST: usize = 100 << 10;
/// How much is said about what was left out.
const MOST_NAMES: usize = 1024;

/// These headers, without the largest where they are too many together.
pub(crate) fn fitting(headers: Vec<(&ShortString, &AMQPValue)>) -> FieldTable {
    let mut total: usize = headers.iter().map(|(name, value)| weight(name, value)).sum();
    let mut kept = headers;
    kept.sort_by_key(|(name, value)| weight(name, value));
    let mut left_out = Vec::new();
    while total > MOST
        && let Some((name, value)) = kept.pop()
    {
        total -= weight(name, value);
        left_out.push(name.as_str());
    }
    let mut table = FieldTable::default();
    for (name, value) in kept {
        table.insert(name.clone(), value.clone());
    }
    if !left_out.is_empty() {
        tracing::warn!(?left_out, "headers of another program do not fit into a copy of its message");
        let names = left_out.join(", ");
        let names = crawlway_broker::limits::truncated(&names, MOST_NAMES);
        table.insert(short(LEFT_OUT), AMQPValue::LongString(names.as_bytes().to_vec().into()));
    }
    table
}

fn weight(name: &ShortString, value: &AMQPValue) -> usize {
    1 + name.as_str().len() + value_weight(value)
}

/// How many bytes a value has on the wire, and no fewer.
fn value_weight(value: &AMQPValue) -> usize {
    const LENGTH: usize = 5;
    match value {
        AMQPValue::LongString(text) => LENGTH + text.as_bytes().len(),
        AMQPValue::ShortString(text) => LENGTH + text.as_str().len(),
        AMQPValue::ByteArray(bytes) => LENGTH + bytes.len(),
        AMQPValue::FieldArray(values) => LENGTH + values.as_slice().iter().map(value_weight).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            LENGTH + table.into_iter().map(|(name, value)| weight(name, value)).sum::<usize>()
        }
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_left_out_and_named_and_what_fits_is_kept() {
        let text = |length: usize| AMQPValue::LongString(vec![b'x'; length].into());
        let [small, large, larger] = [("small", 10), ("large", 60 << 10), ("larger", 61 << 10)]
            .map(|(name, length)| (short(name), text(length)));
        let table = fitting(vec![(&small.0, &small.1), (&larger.0, &larger.1), (&large.0, &large.1)]);
        let names: Vec<&str> = table.inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["large", "small", LEFT_OUT]);
        assert_eq!(table.inner().get(LEFT_OUT), Some(&AMQPValue::LongString("larger".into())));
        let table = fitting(vec![(&small.0, &small.1), (&large.0, &large.1)]);
        assert_eq!(table.inner().len(), 2, "nothing is said where nothing is missing");
    }
}
