//! The documents as other programs see them: fields, indexes, and the handling of documents written by other programs.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Timestamp, UrlRecords,
    inventory::{
        BeginOutcome, FetchedContent, MAX_ATTEMPTS, PageSource, RecordId, RecordQuery, RecordRequest,
        RecordStatus,
    },
};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use crawlway_testkit::private_mongodb::PrivateMongoDb;
use futures::TryStreamExt;
use harness::{database, options};
use mongodb::{
    Collection,
    bson::{Bson, DateTime, Document, RawDocumentBuf, doc, oid::ObjectId},
};
use serde_json::json;

const URL: &str = "https://a.example/";

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + second * 1000)
}

fn request(id: &str, second: u64) -> RecordRequest {
    RecordRequest { url: URL.to_owned(), message_id: id.to_owned(), requested_at: at(second) }
}

struct Fixture {
    options: MongoOptions,
    store: MongoStore,
    documents: Collection<RawDocumentBuf>,
}

impl Fixture {
    async fn new() -> Self {
        let options = options(&crawlway_testkit::servers::mongodb());
        let store = MongoStore::open(options.clone()).await.unwrap();
        let documents = database(&options).await.collection(&options.collection);
        Self { options, store, documents }
    }

    async fn document(&self) -> Document {
        let id = ObjectId::from_bytes(RecordId::of_url(URL).octets());
        self.documents.find_one(doc! { "_id": id }).await.unwrap().unwrap().try_into().unwrap()
    }

    async fn clear(self) {
        database(&self.options).await.drop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_has_the_fields_of_the_schema_and_their_types() {
    let fixture = Fixture::new().await;
    let BeginOutcome::Started { attempt, .. } = fixture.store.begin(&request("m-1", 0), at(1)).await.unwrap()
    else {
        panic!("it is the first")
    };
    let ours = doc! { "message_id": "m-1", "requested_at": DateTime::from_millis(1_700_000_000_000), "attempt": 1_i64 };
    let id = ObjectId::from_bytes(RecordId::of_url(URL).octets());
    let second = |second: i64| DateTime::from_millis(1_700_000_000_000 + second * 1000);
    let begun = doc! {
        "_id": id,
        "url": URL,
        "status": "IN_PROGRESS",
        "metadata": { "headers": Bson::Null, "cookies": Bson::Null, "page_source": Bson::Null },
        "processing": { "retry_count": 0_i32, "error_message": Bson::Null, "last_attempt_at": second(1) },
        "additional_details": { "crawlway": ours.clone() },
        "created_at": second(1),
        "updated_at": second(1),
    };
    // The order of the fields matters too.
    assert_eq!(fixture.document().await, begun);
    fixture.store.fail(&attempt, "timed out", MAX_ATTEMPTS, at(2)).await.unwrap();
    let processing =
        doc! { "retry_count": 1_i32, "error_message": "timed out", "last_attempt_at": second(1) };
    let failed = fixture.document().await;
    assert_eq!(failed.get("status"), Some(&"FAILED_RETRYABLE".into()));
    assert_eq!(failed.get("processing"), Some(&processing.into()));
    let BeginOutcome::Started { attempt, .. } = fixture.store.begin(&request("m-1", 0), at(3)).await.unwrap()
    else {
        panic!("it is tried again")
    };
    let fetched = FetchedContent {
        headers: json!({ "via": ["a", "b"] }).as_object().cloned(),
        cookies: json!({}).as_object().cloned(),
        page_source: Some("<p>".to_owned()),
        additional_details: json!({ "status_code": 200, "date": { "$date": "no date" } })
            .as_object()
            .cloned()
            .unwrap(),
    };
    fixture.store.complete(&attempt, &fetched, at(4)).await.unwrap();
    let mut completed = begun.clone();
    completed.insert("status", "COMPLETED");
    completed
        .insert("metadata", doc! { "headers": { "via": ["a", "b"] }, "cookies": {}, "page_source": "<p>" });
    completed.insert(
        "processing",
        doc! { "retry_count": 1_i32, "error_message": Bson::Null, "last_attempt_at": second(3) },
    );
    let mut ours = ours;
    ours.insert("attempt", 2_i64);
    let details = doc! { "date": { "$date": "no date" }, "status_code": 200_i64, "crawlway": ours };
    completed.insert("additional_details", details);
    completed.insert("updated_at", second(4));
    assert_eq!(fixture.document().await, completed);
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_indexes_by_url_and_by_created_at() {
    let fixture = Fixture::new().await;
    let mut names = fixture.documents.list_index_names().await.unwrap();
    names.sort();
    assert_eq!(names, ["_id_", "created_at_1__id_1", "status_1_created_at_1__id_1", "url_1"]);
    // Opening again, beside an index of another program, changes nothing.
    fixture.documents.drop_index("url_1").await.unwrap();
    let unique = mongodb::IndexModel::builder()
        .keys(doc! { "url": 1 })
        .options(mongodb::options::IndexOptions::builder().unique(true).build())
        .build();
    fixture.documents.create_index(unique).await.unwrap();
    MongoStore::open(fixture.options.clone()).await.unwrap();
    assert_eq!(fixture.documents.list_index_names().await.unwrap().len(), 4);
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_others_are_shown_and_taken_over() {
    let fixture = Fixture::new().await;
    let id = ObjectId::from_bytes(RecordId::of_url(URL).octets());
    // As written by a program in another language that follows the schema.
    let foreign = doc! {
        "_id": id,
        "url": URL,
        "status": "COMPLETED",
        "metadata": { "headers": { "a": "b" }, "cookies": Bson::Null, "page_source": "<p>" },
        "processing": { "retry_count": 2.0, "error_message": Bson::Null, "last_attempt_at": Bson::Null },
        "additional_details": Bson::Null,
        "created_at": DateTime::from_millis(5),
        "updated_at": DateTime::from_millis(6),
    };
    let queued = doc! { "_id": ObjectId::new(), "url": "https://b.example/", "status": "QUEUED", "created_at": DateTime::from_millis(7) };
    let invalid_id =
        doc! { "_id": "not an ObjectId", "status": "COMPLETED", "created_at": DateTime::from_millis(8) };
    let unknown_status =
        doc! { "_id": ObjectId::new(), "status": "whatever", "created_at": DateTime::from_millis(9) };
    let documents = fixture.documents.clone_with_type::<Document>();
    documents.insert_many([foreign, queued, invalid_id, unknown_status]).await.unwrap();

    let record = fixture.store.get(RecordId::of_url(URL)).await.unwrap().unwrap();
    assert_eq!((record.status, record.processing.retry_count), (RecordStatus::Completed, 2));
    assert_eq!((record.latest_attempt, record.additional_details), (None, None));
    assert_eq!(record.metadata.page_source.text(), Some("<p>"));
    let listed = fixture.store.list(&RecordQuery { limit: 10, ..RecordQuery::default() }).await.unwrap();
    let urls: Vec<&str> = listed.records.iter().map(|record| record.url.as_str()).collect();
    assert_eq!(urls, ["https://b.example/", URL], "only records are listed");
    assert_eq!(listed.records[0].metadata.page_source, PageSource::Omitted);

    // Any message is newer than none.
    let BeginOutcome::Started { attempt, retry_count } =
        fixture.store.begin(&request("m-1", 0), at(1)).await.unwrap()
    else {
        panic!("it has no attempt yet")
    };
    assert_eq!((attempt.number, retry_count), (1, 0));
    let record = fixture.store.get(RecordId::of_url(URL)).await.unwrap().unwrap();
    assert_eq!((record.status, record.created_at), (RecordStatus::InProgress, Timestamp::from_millis(5)));
    assert_eq!(record.metadata.page_source.text(), Some("<p>"), "until it is replaced");
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_list_reads_no_further_documents() {
    let fixture = Fixture::new().await;
    for number in 0..200 {
        let url = format!("https://a.example/{number}");
        fixture.store.begin(&RecordRequest { url, ..request("m-1", number) }, at(number)).await.unwrap();
    }
    let database = database(&fixture.options).await;
    // The profiler of the server records what each command has read.
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    let mut wanted = RecordQuery { limit: 10, ..RecordQuery::default() };
    for status in [None, Some(RecordStatus::InProgress)] {
        (wanted.status, wanted.after) = (status, None);
        for _ in 0..5 {
            wanted.after = fixture.store.list(&wanted).await.unwrap().next;
        }
        wanted.from = Some(at(20));
    }
    database.run_command(doc! { "profile": 0 }).await.unwrap();
    let profile = database.collection::<Document>("system.profile");
    let commands: Vec<Document> = profile
        .find(doc! { "command.find": { "$exists": true }, "op": "query" })
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(commands.len(), 10, "{commands:?}");
    for command in commands {
        let examined = command.get_i32("docsExamined").unwrap();
        assert!(examined <= 12, "{examined} documents were read for 11: {command:?}");
        assert_eq!(command.get("hasSortStage"), None, "the index has the order: {command:?}");
    }
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmed_writes_survive_a_kill_of_the_server() {
    let mut mongo = PrivateMongoDb::start();
    let options = options(&mongo.url());
    let store = MongoStore::open(options).await.unwrap();
    let begun = store.begin(&request("m-1", 0), at(1)).await.unwrap();
    let BeginOutcome::Started { attempt, .. } = begun else { panic!("{begun:?}") };
    store.complete(&attempt, &FetchedContent::default(), at(2)).await.unwrap();
    mongo.kill();
    mongo.restart();
    let begun = std::time::Instant::now();
    let record = loop {
        match store.get(attempt.id).await {
            Ok(record) => break record.unwrap(),
            Err(error) => assert!(begun.elapsed().as_secs() < 60, "the server is available: {error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(record.status, RecordStatus::Completed);
}
