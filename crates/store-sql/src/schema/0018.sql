-- Requests of users. Times are milliseconds since the Unix epoch.

CREATE TABLE crawl_requests (
    email TEXT {octets} NOT NULL,
    id TEXT {octets} NOT NULL,
    url TEXT NOT NULL,
    status TEXT NOT NULL,              -- pending, completed or failed
    result TEXT,                       -- JSON; null while pending
    created_at TEXT NOT NULL,          -- ISO 8601, as the gateway wrote it
    created BIGINT NOT NULL,           -- the same, for the order of lists
    deadline BIGINT,                   -- null once it has ended
    publish_at BIGINT,                 -- outbox: the time of the next publish; null once it is published
    deleted_at BIGINT,                 -- null unless the user has deleted it
    PRIMARY KEY (email, id)
);
CREATE INDEX crawl_requests_created ON crawl_requests (email, created, id) WHERE deleted_at IS NULL;
CREATE INDEX crawl_requests_status ON crawl_requests (email, status, created, id) WHERE deleted_at IS NULL;
CREATE INDEX crawl_requests_deadline ON crawl_requests (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX crawl_requests_outbox ON crawl_requests (publish_at) WHERE publish_at IS NOT NULL;
CREATE INDEX crawl_requests_deleted ON crawl_requests (deleted_at) WHERE deleted_at IS NOT NULL;

-- Change feed of each user. The row of the feed is locked while a change is added, so that numbers become visible in order.
CREATE TABLE request_feeds (
    email TEXT {octets} PRIMARY KEY,
    last BIGINT NOT NULL               -- number of the last change
) {by key};

CREATE TABLE request_changes (
    email TEXT {octets} NOT NULL,
    num BIGINT NOT NULL,
    id TEXT {octets} NOT NULL,         -- of the request
    status TEXT,                       -- null for a deleted request
    PRIMARY KEY (email, num)
) {by key};
