//! A request, its key, and the answer to it.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::{fmt, str::FromStr};

/// Status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestStatus {
    /// Without an answer.
    Pending,
    /// With a result.
    Completed,
    /// With an error message.
    Failed,
}

impl RequestStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Completed, Self::Failed];

    /// Name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for RequestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RequestStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|status| status.as_str() == name);
        named.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// User and id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// E-mail address of the user, verbatim.
    pub email: String,
    /// Id of the request.
    pub id: String,
}

impl RequestKey {
    /// Key of a request.
    pub fn new(email: impl Into<String>, id: impl Into<String>) -> Self {
        Self { email: email.into(), id: id.into() }
    }
}

/// A user's request for one URL. Its JSON, with these fields in this order, is a public contract.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CrawlRequest {
    /// Id.
    pub id: String,
    /// URL; empty if the store has lost the request and only its answer is known.
    pub url: String,
    /// E-mail address of the user.
    pub email: String,
    /// Status.
    pub status: RequestStatus,
    /// Scraped data of a completed request, any JSON; an object with `errorMessage` of a failed one.
    pub result: Option<Box<RawValue>>,
    /// Time of creation, ISO 8601, as the gateway wrote it.
    pub created_at: String,
}

impl CrawlRequest {
    /// A pending request.
    pub fn pending(key: RequestKey, url: impl Into<String>, created_at: impl Into<String>) -> Self {
        Self {
            id: key.id,
            url: url.into(),
            email: key.email,
            status: RequestStatus::Pending,
            result: None,
            created_at: created_at.into(),
        }
    }

    /// User and id.
    pub fn key(&self) -> RequestKey {
        RequestKey::new(&*self.email, &*self.id)
    }

    /// JSON of the contract.
    pub fn to_json(&self) -> String {
        // Cannot fail: all fields are serialisable.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Time of creation; 1970 if another program wrote something else.
    pub fn created(&self) -> Timestamp {
        Timestamp::from_iso(&self.created_at).unwrap_or(Timestamp::from_millis(0))
    }

    /// The same request with the result of an answer.
    pub fn answered(&self, answer: &Answer) -> Self {
        let status = answer.status();
        Self {
            status,
            result: Some(answer.result.clone().unwrap_or_else(|error| error_result(&error))),
            ..self.clone()
        }
    }
}

impl PartialEq for CrawlRequest {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl Eq for CrawlRequest {}

/// Answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Request.
    pub key: RequestKey,
    /// Time of its creation, as on the wire.
    pub created_at: String,
    /// Scraped data, any JSON, or an error message.
    pub result: Result<Box<RawValue>, String>,
}

impl Answer {
    /// Status of the request after this answer.
    pub fn status(&self) -> RequestStatus {
        if self.result.is_ok() { RequestStatus::Completed } else { RequestStatus::Failed }
    }

    /// The answered request, if nothing but the answer is known of it. Our own workers repeat the URL in the result.
    pub fn request(&self) -> CrawlRequest {
        #[derive(Deserialize)]
        struct WithUrl {
            url: String,
        }
        let data =
            self.result.as_ref().ok().and_then(|data| serde_json::from_str::<WithUrl>(data.get()).ok());
        let url = data.map(|data| data.url).unwrap_or_default();
        CrawlRequest::pending(self.key.clone(), url, &*self.created_at).answered(self)
    }
}

/// Result of a failed request.
pub fn error_result(message: &str) -> Box<RawValue> {
    let result = serde_json::json!({ "errorMessage": message });
    // Cannot fail: the value is a map of texts.
    to_raw_value(&result).unwrap_or_else(|_| unreachable!("an object of texts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_that_of_the_contract() {
        let key = RequestKey::new("lidor@example.com", "38e9351d-ab05-428b-a6ec-ddd100678807");
        let request = CrawlRequest::pending(key.clone(), "https://a.example/", "2026-11-15T09:30:00.000Z");
        assert_eq!(
            request.to_json(),
            r#"{"id":"38e9351d-ab05-428b-a6ec-ddd100678807","url":"https://a.example/","email":"lidor@example.com","status":"pending","result":null,"createdAt":"2026-11-15T09:30:00.000Z"}"#
        );
        let read: CrawlRequest = serde_json::from_str(&request.to_json()).unwrap();
        assert_eq!((read.result.is_none(), read.status), (true, RequestStatus::Pending));
        // Numbers and the order of fields are kept as they were sent.
        let data = r#"{"z":1e400,"a":12345678901234567890.10}"#;
        let result = Ok(RawValue::from_string(data.to_owned()).unwrap());
        let answer = Answer { key, created_at: request.created_at.clone(), result };
        assert!(
            request
                .answered(&answer)
                .to_json()
                .contains(&format!(r#""status":"completed","result":{data},"#))
        );
        let failed = Answer { result: Err("timed out".to_owned()), ..answer };
        assert!(
            request
                .answered(&failed)
                .to_json()
                .contains(r#""status":"failed","result":{"errorMessage":"timed out"},"#)
        );
    }
}
