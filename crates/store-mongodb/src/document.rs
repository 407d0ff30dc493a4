//! Conversion between records and documents.

use crawlway_store::{
    Timestamp,
    inventory::{
        CRAWLWAY_FIELD, FetchedContent, InventoryRecord, LatestAttempt, Metadata, PageSource, Processing,
        RecordId, RecordStatus,
    },
};
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc, oid::ObjectId};
use serde_json::{Map, Value};

pub(crate) fn object_id(id: RecordId) -> ObjectId {
    ObjectId::from_bytes(id.octets())
}

pub(crate) fn date(time: Timestamp) -> DateTime {
    DateTime::from_millis(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// `metadata`.
pub(crate) fn metadata(fetched: &FetchedContent) -> Document {
    let object = |object: &Option<Map<String, Value>>| object.as_ref().map(document);
    doc! {
        "headers": object(&fetched.headers),
        "cookies": object(&fetched.cookies),
        "page_source": &fetched.page_source,
    }
}

/// Converts by hand, since the driver interprets names such as `$date` (Extended JSON).
pub(crate) fn document(object: &Map<String, Value>) -> Document {
    object.iter().map(|(name, value)| (name.clone(), bson(value))).collect()
}

fn bson(value: &Value) -> Bson {
    match value {
        Value::Null => Bson::Null,
        Value::Bool(bool) => Bson::Boolean(*bool),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Bson::Int64(int),
            None => Bson::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Bson::String(text.clone()),
        Value::Array(values) => Bson::Array(values.iter().map(bson).collect()),
        Value::Object(fields) => Bson::Document(document(fields)),
    }
}

/// Decodes a document.
pub(crate) fn decode(raw: RawDocumentBuf) -> Result<Document, String> {
    Document::try_from(raw).map_err(|error| error.to_string())
}

/// Converts a document into a record. Fields that are missing or of another type become null, so that documents of other
/// programs can be shown. Only the id and the status are required.
pub(crate) fn record(document: RawDocumentBuf, with_source: bool) -> Result<InventoryRecord, String> {
    let mut document = decode(document)?;
    let id = match document.get("_id") {
        Some(Bson::ObjectId(id)) => RecordId::from_octets(id.bytes()),
        other => return Err(format!("a document has no ObjectId as its `_id`, but {other:?}")),
    };
    let status =
        status(&document).map_err(|word| format!("the record {id} has the unknown status `{word}`"))?;
    let mut metadata = fields(document.remove("metadata"));
    let page_source = match metadata.remove("page_source") {
        _ if !with_source => PageSource::Omitted,
        Some(Bson::String(text)) => PageSource::Text(text),
        _ => PageSource::Absent,
    };
    let mut processing = fields(document.remove("processing"));
    let mut details =
        document.remove("additional_details").filter(|details| matches!(details, Bson::Document(_)));
    let work = match &mut details {
        Some(Bson::Document(details)) => {
            details.remove(CRAWLWAY_FIELD).and_then(|own| work(&fields(Some(own))))
        }
        _ => None,
    };
    let additional_details = object(details).filter(|details| !details.is_empty());
    let created_at = time(document.get("created_at")).unwrap_or_default();
    Ok(InventoryRecord {
        id,
        url: text(document.remove("url")).unwrap_or_default(),
        status,
        metadata: Metadata {
            headers: object(metadata.remove("headers")),
            cookies: object(metadata.remove("cookies")),
            page_source,
        },
        processing: Processing {
            retry_count: retry_count(&processing),
            error_message: text(processing.remove("error_message")),
            last_attempt_at: time(processing.get("last_attempt_at")),
        },
        additional_details,
        latest_attempt: work,
        created_at,
        updated_at: time(document.get("updated_at")).unwrap_or(created_at),
    })
}

/// Status of a document, or the unknown text.
pub(crate) fn status(document: &Document) -> Result<RecordStatus, String> {
    let word = document.get_str("status").unwrap_or_default();
    RecordStatus::from_name(word).ok_or_else(|| word.to_owned())
}

/// Number of failed attempts, from `processing`.
pub(crate) fn retry_count(processing: &Document) -> u32 {
    processing.get("retry_count").and_then(integer).and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// The latest attempt, from `additional_details.crawlway`.
pub(crate) fn work(fields: &Document) -> Option<LatestAttempt> {
    Some(LatestAttempt {
        message_id: fields.get_str("message_id").ok()?.to_owned(),
        requested_at: time(fields.get("requested_at")).unwrap_or_default(),
        attempt: fields.get("attempt").and_then(integer).and_then(|number| u64::try_from(number).ok())?,
    })
}

/// The fields of a value; none if it is not a document.
pub(crate) fn fields(value: Option<Bson>) -> Document {
    match value {
        Some(Bson::Document(document)) => document,
        _ => Document::new(),
    }
}

fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(int) => Some(i64::from(*int)),
        Bson::Int64(int) => Some(*int),
        // JavaScript writes integers as doubles.
        Bson::Double(float) if float.fract() == 0.0 => Some(*float as i64),
        _ => None,
    }
}

fn text(value: Option<Bson>) -> Option<String> {
    match value {
        Some(Bson::String(text)) => Some(text),
        _ => None,
    }
}

fn time(value: Option<&Bson>) -> Option<Timestamp> {
    match value {
        Some(Bson::DateTime(date)) => {
            Some(Timestamp::from_millis(u64::try_from(date.timestamp_millis()).unwrap_or(0)))
        }
        _ => None,
    }
}

fn object(value: Option<Bson>) -> Option<Map<String, Value>> {
    match value {
        Some(Bson::Document(document)) => {
            Some(document.into_iter().map(|(name, value)| (name, json(value))).collect())
        }
        _ => None,
    }
}

fn json(value: Bson) -> Value {
    match value {
        Bson::String(text) => Value::String(text),
        Bson::Int32(int) => int.into(),
        Bson::Int64(int) => int.into(),
        // NaN and infinity become null, since JSON has neither.
        Bson::Double(float) => float.into(),
        Bson::Boolean(bool) => bool.into(),
        Bson::Array(values) => values.into_iter().map(json).collect(),
        Bson::Document(document) => document.into_iter().map(|(name, value)| (name, json(value))).collect(),
        Bson::Null | Bson::Undefined => Value::Null,
        Bson::ObjectId(id) => id.to_hex().into(),
        Bson::DateTime(date) => time(Some(&Bson::DateTime(date))).map(Timestamp::to_iso).into(),
        // Types that only other programs write.
        other => other.to_string().into(),
    }
}
