//! Whether the process lives, and whether it can do its work: `/health/live` and `/health/ready`.

use crate::{
    inventory::Inventory,
    parts::{Parts, Shared},
};
use axum::{Json, extract::State};
use crawlway_flow::Stop;
use crawlway_flows::search::FRONTIER;
use crawlway_store::seen::Claim;
use http::StatusCode;
use serde::Serialize;
use std::{future::Future, time::Duration};
use utoipa::ToSchema;

/// Who has not answered by then is out of order.
const PATIENCE: Duration = Duration::from_secs(2);

/// That the process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Live {
    live: bool,
}

/// Whether the process can do its work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Whether everything that is needed is in order.
    pub(crate) ready: bool,
    /// What is needed.
    pub(crate) dependencies: Vec<Dependency>,
}

/// Something that is needed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Dependency {
    /// `queues`, `records`, `seen`, `gate`, `inventory`, `index`, `stages` or `process`.
    pub(crate) name: &'static str,
    /// Whether it is in order.
    pub(crate) ready: bool,
    /// Why not.
    pub(crate) reason: Option<String>,
}

/// Whether the process lives: it does if it answers
#[utoipa::path(get, path = "/health/live", operation_id = "getLive", tag = "health", responses((status = OK, body = Live)))]
pub(crate) async fn live() -> Json<Live> {
    Json(Live { live: true })
}

/// Whether the process can do its work, with a reason for everything that is out of order
#[utoipa::path(get, path = "/health/ready", operation_id = "getReady", tag = "health", responses(
    (status = OK, body = Ready, description = "It can"),
    (status = SERVICE_UNAVAILABLE, body = Ready, description = "It cannot; the reasons say why"),
))]
pub(crate) async fn ready(State(shared): State<Shared>) -> (StatusCode, Json<Ready>) {
    answered(look(&shared.parts).await)
}

/// Ready if everything is.
pub(crate) fn answered(dependencies: Vec<Dependency>) -> (StatusCode, Json<Ready>) {
    let ready = dependencies.iter().all(|dependency| dependency.ready);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, dependencies }))
}

/// How everything is that is needed.
pub(crate) async fn look(parts: &Parts) -> Vec<Dependency> {
    // Which queues there are is known here; how much is in them only the broker knows. The frontier is no queue of its.
    let queues = async {
        let queues = parts.broker.queues().await.map_err(|error| error.to_string())?;
        for queue in queues.iter().map(|spec| &spec.name).filter(|name| name.as_str() != FRONTIER) {
            parts.broker.depth(queue).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    // Written by the same store, so that the crawls stand for the trails too; which are looked at all the same, since
    // they may be elsewhere one day.
    let records = async {
        parts.frontier.crawls(None, 1).await.map_err(|error| error.to_string())?;
        parts.trails.of_item("").await.map(drop).map_err(|error| error.to_string())
    };
    // Both must really be asked, and neither be changed: nobody has a claim on what is no URL.
    let seen = async {
        let none = Claim::new("", "");
        parts.seen.release(&[none]).await.map_err(|error| error.to_string())
    };
    let gate = async { parts.gate.tracked().await.map(drop).map_err(|error| error.to_string()) };
    let index = async {
        match &parts.index {
            Some(index) => index.count().await.map(drop).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    };
    let (queues, records, seen, gate, inventory, index) = tokio::join!(
        within("queues", queues),
        within("records", records),
        within("seen", seen),
        within("gate", gate),
        within("inventory", parts.inventory.trouble()),
        within("index", index)
    );
    let mut all = vec![queues, records, seen, gate, inventory];
    if parts.index.is_some() {
        all.push(index);
    }
    all.push(told("stages", (parts.broken)()));
    all.push(process(&parts.stop));
    all
}

/// How everything is that a gateway for the flow `inventory` alone needs.
pub(crate) async fn of_inventory(inventory: &Inventory) -> Vec<Dependency> {
    let (queues, records) =
        tokio::join!(within("queues", inventory.queue_trouble()), within("inventory", inventory.trouble()),);
    vec![queues, records, process(inventory.stop())]
}

fn process(stop: &Stop) -> Dependency {
    let stopping = stop.is_requested();
    told("process", stopping.then(|| "it was asked to end, and finishes what is in flight".to_owned()))
}

async fn within(name: &'static str, look: impl Future<Output = Result<(), String>>) -> Dependency {
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(found) => told(name, found.err()),
        Err(_) => told(name, Some(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

fn told(name: &'static str, reason: Option<String>) -> Dependency {
    Dependency { name, ready: reason.is_none(), reason }
}
