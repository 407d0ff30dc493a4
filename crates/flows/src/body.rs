//! Reading the JSON of a message, with a reason for everything that is wrong: the field, what it has, what was expected.

use crawlway_flow::Invalid;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;
use std::{fmt, marker::PhantomData};

/// A field of a message: where, whether it must be there, what fits, and that in words.
pub(crate) type Field = (&'static str, bool, fn(&Value) -> bool, &'static str);

/// Reads a message, or says what is wrong with it. The fields are looked at in order, and only if it cannot be read.
pub(crate) fn read<T: DeserializeOwned>(
    body: &[u8],
    most_bytes: usize,
    fields: &[Field],
) -> Result<T, Invalid> {
    if body.len() > most_bytes {
        return Err(Invalid(format!("the message has {} bytes, the limit is {most_bytes}", body.len())));
    }
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(message)| message).map_err(|error| explain(body, fields, &error))
}

/// What is read from a JSON object only: a struct by itself would be read from a list of its fields as well.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        object(value).map(Self)
    }
}

/// Reads a field from a JSON object only.
pub(crate) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    struct Fields<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    value.deserialize_map(Fields(PhantomData))
}

/// What is wrong with a message that could not be read. Slow, and only for those.
fn explain(body: &[u8], fields: &[Field], error: &serde_json::Error) -> Invalid {
    if let Err(error) = std::str::from_utf8(body) {
        return Invalid(format!("the message is not UTF-8 (from byte {} on)", error.valid_up_to()));
    }
    let value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(error) => return Invalid(format!("the message is not JSON: {error}")),
    };
    if !value.is_object() {
        return Invalid(format!("the message is {}; expected an object", shown(&value)));
    }
    for (pointer, required, fits, expected) in fields {
        let name = pointer[1..].replace('/', ".");
        match value.pointer(pointer) {
            None if *required => return Invalid(format!("`{name}` is missing; expected {expected}")),
            Some(found) if !fits(found) && (*required || !found.is_null()) => {
                return Invalid(format!("`{name}` is {}; expected {expected}", shown(found)));
            }
            _ => {}
        }
    }
    Invalid(format!("the message has not the expected shape: {error}"))
}

/// A value as a reason can quote it: short.
pub(crate) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let kind = match value {
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
        other => other.to_string(),
    };
    if kind.chars().count() <= MOST {
        kind
    } else {
        format!("{}…", kind.chars().take(MOST).collect::<String>())
    }
}
