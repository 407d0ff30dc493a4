//! Ids of items in messages, for those who have a message and no stage to decode it.

use crawlway_broker::Message;
use crawlway_store::{StoreError, Trails};

/// Where a message has the id of its item, as [`Stage::item_id`](crate::Stage::item_id) reads it. The id of the message itself may be one
/// that the broker made, if another program has published it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemId {
    /// The id of the message.
    #[default]
    Message,
    /// A header.
    Header(&'static str),
    /// A field of the body, which is a JSON object.
    Body(&'static str),
}

impl ItemId {
    /// Id of the item of a message; that of the message if there is no other.
    pub fn of(self, message: &Message) -> String {
        let named = match self {
            Self::Message => None,
            Self::Header(name) => message.headers.get(name).cloned(),
            Self::Body(field) => serde_json::from_slice::<serde_json::Value>(&message.body)
                .ok()
                .and_then(|body| Some(body.get(field)?.as_str()?.to_owned())),
        };
        named.filter(|id| !id.is_empty()).unwrap_or_else(|| message.id.as_str().to_owned())
    }

    /// Id of the trail of a message. That of an invalid one, which the stage could not decode, is the id of the message.
    pub async fn of_trail(self, trails: &dyn Trails, message: &Message) -> Result<String, StoreError> {
        let (item, own) = (self.of(message), message.id.as_str());
        if item != own && !trails.of_item(own).await?.is_empty() {
            return Ok(own.to_owned());
        }
        Ok(item)
    }
}
