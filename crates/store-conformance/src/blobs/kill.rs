//! A writer that is killed repeatedly, for tests of backends that start themselves as a child.
//!
//! The child replaces blobs of a few keys in turns, each with a content that follows from its number, and prints the number of
//! each after its put. So every blob is whole at any time, and at least as new as what was printed.

use super::fixture::{expect_ok, key, metadata, read};
use crawlway_store::{
    BlobStore,
    blobs::{BlobKey, once},
};

const KEYS: u64 = 3;

fn name(number: u64) -> BlobKey {
    key(&format!("raw/acme/{}.html", number % KEYS))
}

fn content(number: u64) -> String {
    format!("{number} ").repeat(1 + usize::try_from(number % 7).unwrap_or(0) * 50_000)
}

/// The child: puts blobs from this number on until it is killed, and tells each number after its put.
pub async fn work(store: &dyn BlobStore, from: u64, tell: impl Fn(u64)) {
    for number in from.. {
        expect_ok(store.put(&name(number), &metadata("a"), once(content(number))).await, "putting");
        tell(number);
    }
}

/// Checks all blobs after a kill; returns the next number. `told` is the last number that a child has told.
pub async fn check(store: &dyn BlobStore, told: Option<u64>) -> u64 {
    let mut next = told.map_or(0, |told| told + 1);
    for slot in 0..KEYS {
        let Some(found) = read(store, &name(slot)).await else {
            assert!(told.is_none_or(|told| told < slot), "blob {slot} was put, and is lost");
            continue;
        };
        let number: u64 =
            found.split(' ').next().and_then(|word| word.parse().ok()).expect("a number at its start");
        assert!(found == content(number) && number % KEYS == slot, "blob {slot} is not whole");
        assert!(told.is_none_or(|told| number + KEYS > told), "blob {slot} is older than what was put");
        next = next.max(number + 1);
    }
    next
}
