//! Common imports of the suites.

pub(crate) use crate::fixture::{Begin, at, expect_ok};
pub(crate) use crate::texts::{WITH_NUL, odd_texts, odd_urls};
pub(crate) use crawlway_store::{StoreError, Timestamp, rate_limiter::Jitter};
pub(crate) use serde_json::{Map, Value, json};
pub(crate) use std::collections::{BTreeMap, HashMap, HashSet};
pub(crate) use std::{
    slice::from_ref,
    sync::{Arc, Mutex},
    time::Duration,
};
