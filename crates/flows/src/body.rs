//! Decoding of JSON messages. An error names the field, its value and what was expected.

use crawlway_flow::Invalid;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;
use std::{fmt, marker::PhantomData};

/// Field of a message: JSON pointer, whether it is required, check, and description of valid values.
pub(crate) type Field = (&'static str, bool, fn(&Value) -> bool, &'static str);

/// Decodes a message. `fields` are checked in order, for the error of an invalid message only.
pub(crate) fn read<T: DeserializeOwned>(
    body: &[u8],
    max_bytes: usize,
    fields: &[Field],
) -> Result<T, Invalid> {
    if body.len() > max_bytes {
        return Err(Invalid(format!("the message has {} bytes, the limit is {max_bytes}", body.len())));
    }
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(message)| message).map_err(|error| explain(body, fields, &error))
}

/// Value that is deserialised from a JSON object only; a struct alone would also accept a list of its fields.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        object(value).map(Self)
    }
}

/// Deserialises a field from a JSON object only.
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

/// Reason why a message is invalid. Slow, for invalid messages only.
fn explain(body: &[u8], fields: &[Field], error: &serde_json::Error) -> Invalid {
    if let Err(error) = std::str::from_utf8(body) {
        return Invalid(format!("the message is not UTF-8 (from byte {} on)", error.valid_up_to()));
    }
    let value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(error) => return Invalid(format!("the message is not JSON: {error}")),
    };
    if !value.is_object() {
        return Invalid(format!("the message is {}; expected an object", quote(&value)));
    }
    for (pointer, required, is_valid, expected) in fields {
        let name = pointer[1..].replace('/', ".");
        match value.pointer(pointer) {
            None if *required => return Invalid(format!("`{name}` is missing; expected {expected}")),
            Some(value) if !is_valid(value) && (*required || !value.is_null()) => {
                return Invalid(format!("`{name}` is {}; expected {expected}", quote(value)));
            }
            _ => {}
        }
    }
    Invalid(format!("the message does not have the expected shape: {error}"))
}

/// Short quotation of a value, for error messages.
pub(crate) fn quote(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = match value {
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_CHARS {
        text
    } else {
        format!("{}…", text.chars().take(MAX_CHARS).collect::<String>())
    }
}
