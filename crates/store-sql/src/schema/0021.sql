-- Step 21: ingestion runs and their jobs. Other programs read `ingestion_runs` and `jobs`. Times are milliseconds since the Unix epoch.

CREATE TABLE ingestion_runs (
    id TEXT {octets} PRIMARY KEY,
    state TEXT NOT NULL,               -- queued, running, sealed, finalised or aborted
    use_test_db {boolean} NOT NULL,
    run_metadata {json} NOT NULL,      -- failures and breakers by company, counts of a finished run
    jobs BIGINT NOT NULL,              -- without duplicates
    queued_position BIGINT NOT NULL,   -- jobs up to here are in the queue
    started_at BIGINT NOT NULL,
    sealed_at BIGINT,
    finished_at BIGINT,
    expired_at BIGINT,                 -- when its retention was over
    purged SMALLINT NOT NULL           -- 1 once its rows of run_jobs are deleted
);
CREATE INDEX ingestion_runs_started ON ingestion_runs (started_at, id);
CREATE INDEX ingestion_runs_state ON ingestion_runs (state, started_at, id);
CREATE INDEX ingestion_runs_finished ON ingestion_runs (finished_at) WHERE purged = 0;

CREATE TABLE jobs (
    id {number},
    company TEXT {octets} NOT NULL,
    external_id TEXT {octets} NOT NULL,
    url TEXT NOT NULL,
    title TEXT,
    status TEXT NOT NULL,              -- queued, crawled, or the outcome in the last run
    error_message TEXT,
    simhash BIGINT,                    -- of the stored page, in two's complement
    blob_key TEXT,
    stored_at BIGINT,
    description TEXT,
    requirements TEXT,
    language TEXT,
    location TEXT,
    employment_type TEXT,
    salary TEXT,
    extracted_at BIGINT,
    first_run_id TEXT {octets} NOT NULL,
    last_run_id TEXT {octets} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX jobs_key ON jobs (company, external_id);

CREATE TABLE run_jobs (
    run_id TEXT {octets} NOT NULL,
    job_id BIGINT NOT NULL,
    position BIGINT NOT NULL,          -- in the source
    stage TEXT NOT NULL,               -- crawl or extract
    outcome TEXT,                      -- null while it is open
    error_message TEXT,
    changed_at BIGINT NOT NULL,        -- when it was settled, or came into its stage
    PRIMARY KEY (run_id, job_id)
) {by key};
CREATE INDEX run_jobs_position ON run_jobs (run_id, position);
CREATE INDEX run_jobs_outcome ON run_jobs (run_id, outcome, position);
