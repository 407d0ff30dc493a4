"""Third-party client, written from the schema alone: reads the records of the flow `inventory` from MongoDB.

records.py ADDRESS DATABASE COLLECTION

Prints a line of JSON with the indexes, then one for each record, by URL and in order of creation, with the types that JSON
lacks. A record that does not match the schema ends the program.
"""

import datetime
import json
import sys

import bson
import pymongo

STATUSES = {"QUEUED", "IN_PROGRESS", "COMPLETED", "FAILED_RETRYABLE", "FAILED_PERMANENT"}
TIME = datetime.datetime
NONE = type(None)

# The fields of the schema.
SCHEMA = {
    "_id": bson.ObjectId,
    "url": str,
    "status": str,
    "metadata": {"headers": (dict, NONE), "cookies": (dict, NONE), "page_source": (str, NONE)},
    "processing": {"retry_count": int, "error_message": (str, NONE), "last_attempt_at": (TIME, NONE)},
    "additional_details": (dict, NONE),
    "created_at": TIME,
    "updated_at": TIME,
}


def check(document, schema, at=""):
    missing, unknown = schema.keys() - document.keys(), document.keys() - schema.keys()
    assert not missing and not unknown, f"{at or 'the record'}: missing {missing}, unknown {unknown}"
    for name, kind in schema.items():
        if isinstance(kind, dict):
            assert isinstance(document[name], dict), f"{at}{name} is {document[name]!r}"
            check(document[name], kind, f"{at}{name}.")
        else:
            assert isinstance(document[name], kind), f"{at}{name} is {document[name]!r}, expected {kind}"


def shown(value):
    if isinstance(value, TIME):
        return {"time": value.isoformat()}
    if isinstance(value, bson.ObjectId):
        return {"object_id": str(value)}
    raise TypeError(f"{value!r} has no place in a record")


def main():
    address, database, collection = sys.argv[1:]
    client = pymongo.MongoClient(address, tz_aware=True)
    records = client[database][collection]
    indexes = sorted(list(index["key"]) for index in records.list_indexes())
    print(json.dumps({"indexes": indexes}))
    since = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    for record in records.find({"created_at": {"$gte": since}}).sort("created_at", pymongo.ASCENDING):
        check(record, SCHEMA)
        assert record["status"] in STATUSES, record["status"]
        # The two queries that have an index in the schema.
        assert records.find_one({"url": record["url"]}) == record
        print(json.dumps(record, default=shown))


main()
