//! Check that processes share all stores or none.

use super::{
    Config, RecordKind, SeenKind, inventory::InventoryKind, rate_limit::RateLimitKind, search::IndexKind,
};

/// Stores of a configuration: shared on servers, or owned by one process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Stores on servers, for all processes.
    pub(crate) shared: Vec<&'static str>,
    /// Stores in the data directory of one process.
    pub(crate) owned: Vec<&'static str>,
}

impl Config {
    /// Shared and owned stores of these settings.
    pub(crate) fn sharing(&self) -> Sharing {
        let mut sharing = Sharing::default();
        let records = self.records.kind == RecordKind::Postgresql;
        for (part, is_shared) in [
            ("the broker", self.broker.is_shared()),
            ("the records", records),
            ("the seen URLs", self.seen.kind == SeenKind::Redis || records),
            ("the rate limiter", self.rate_limit.kind != RateLimitKind::Embedded),
            ("the search index", self.search.index == IndexKind::Postgresql),
            ("the inventory", self.inventory.store == InventoryKind::Mongodb || records),
        ] {
            if is_shared {
                sharing.shared.push(part);
            } else {
                sharing.owned.push(part);
            }
        }
        sharing
    }

    /// Whether several processes may share all stores.
    pub(crate) fn is_shared(&self) -> bool {
        !self.only_process && self.sharing().owned.is_empty()
    }

    /// Whether gateways and one worker share the broker and the inventory (`only_worker`).
    pub(crate) fn is_for_one_worker(&self) -> bool {
        self.only_worker && self.broker.is_shared() && self.inventory.store == InventoryKind::Mongodb
    }

    /// Fails if processes with these settings would share only some of the stores.
    pub(super) fn check_sharing(&self) -> Result<(), String> {
        let with_the_records = [
            ("search.index", self.search.index == IndexKind::Postgresql),
            ("rate_limit.kind", self.rate_limit.kind == RateLimitKind::Postgresql),
        ];
        for (setting, wanted) in with_the_records {
            if wanted && self.records.kind != RecordKind::Postgresql {
                return Err(format!(
                    "`{setting}` is \"postgresql\", which is in the database of the records, but `records.kind` is not \
                     \"postgresql\""
                ));
            }
        }
        let Sharing { shared, owned } = self.sharing();
        if shared.is_empty() || owned.is_empty() || self.only_process || self.is_for_one_worker() {
            return Ok(());
        }
        if self.only_worker {
            return Err("`only_worker` lets a gateway and a worker share the flow `inventory`, for which the broker and the \
                        inventory must be on servers; set `broker.kind` and `inventory.store`"
                .to_owned());
        }
        Err(format!(
            "{} can be shared by many processes, but each would have its own of {}; use shared ones for all of them \
             (`broker.kind`, `records.kind`, `seen.kind`, `rate_limit.kind`, `search.index`, `inventory.store`), or set `only_process = true` \
             if there is never more than one, or `only_worker = true` if that one works for the flow `inventory` alone",
            listed(&shared),
            listed(&owned)
        ))
    }
}

/// List as text: `a, b and c`.
fn listed(parts: &[&str]) -> String {
    match parts {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
