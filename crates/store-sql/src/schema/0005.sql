-- Step 5: the records of the flow inventory. Objects are JSON, as texts. Times are milliseconds since the Unix epoch.

CREATE TABLE url_records (
    id TEXT {octets} PRIMARY KEY,      -- from the URL
    url TEXT NOT NULL,
    status TEXT NOT NULL,
    retry_count BIGINT NOT NULL,
    last_attempt_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    message_id TEXT {octets} NOT NULL, -- whose attempt is the latest
    requested_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    error_message TEXT,
    headers TEXT,
    cookies TEXT,
    additional_details TEXT
);
CREATE INDEX url_records_url ON url_records (substr(url, 1, 200));
CREATE INDEX url_records_created ON url_records (created_at, id);
CREATE INDEX url_records_status ON url_records (status, created_at, id);

-- Apart, since a change of a row writes all of the row on SQLite, and since lists do without.
CREATE TABLE url_sources (
    id TEXT {octets} PRIMARY KEY,
    page_source TEXT NOT NULL
);
