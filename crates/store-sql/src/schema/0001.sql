-- Step 1: crawls, their hosts and URLs; seen URLs; trails. Times are milliseconds since the Unix epoch.

CREATE TABLE crawls (
    num {number},
    id TEXT NOT NULL UNIQUE,
    definition TEXT NOT NULL,
    max_pages BIGINT,
    state SMALLINT NOT NULL,           -- 0 running, 1 paused, 2 cancelled, 3 finished
    created_at BIGINT NOT NULL,
    ended_at BIGINT,
    -- Kept with every change, last in its transaction, so that the row is locked for the length of a commit.
    waiting BIGINT NOT NULL,
    in_flight BIGINT NOT NULL,
    done BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    fetched BIGINT NOT NULL
);
CREATE INDEX crawls_running ON crawls (num) WHERE state = 0;

CREATE TABLE crawl_counts (
    crawl BIGINT NOT NULL,
    kind SMALLINT NOT NULL,            -- 0 outcomes, 1 left out
    name TEXT NOT NULL,
    many BIGINT NOT NULL,
    PRIMARY KEY (crawl, kind, name)
) {by key};

CREATE TABLE budgets (
    crawl BIGINT NOT NULL,
    kind {bytes} NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (crawl, kind)
) {by key};

-- Whoever changes a URL holds the row of its host.
CREATE TABLE hosts (
    num {number},
    crawl BIGINT NOT NULL,
    name TEXT NOT NULL,
    in_flight BIGINT NOT NULL,
    rest_until BIGINT NOT NULL,
    next_at BIGINT,                    -- when something can be taken; null if nothing waits
    UNIQUE (crawl, name)
);
CREATE INDEX hosts_next ON hosts (crawl, in_flight, next_at) WHERE next_at IS NOT NULL;

CREATE TABLE entries (
    num {number},                      -- in the order of adding
    crawl BIGINT NOT NULL,
    host BIGINT NOT NULL,
    hash {bytes} NOT NULL,             -- of the URL
    added_at BIGINT NOT NULL,
    due BIGINT,                        -- by state: when it is due, its lease's end, when it is due again, since when it is dead
    taking BIGINT NOT NULL,
    state SMALLINT NOT NULL,           -- 0 waiting, 1 in flight, 2 done, 3 dead
    attempts INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    chain INTEGER NOT NULL,
    insist SMALLINT NOT NULL,
    fetched SMALLINT NOT NULL,
    item TEXT NOT NULL,
    url TEXT NOT NULL,
    found_on TEXT,
    outcome TEXT,                      -- of what is done; why it is dead
    first_error TEXT,
    last_error TEXT,
    etag TEXT,
    last_modified TEXT,
    canonical TEXT
);
CREATE UNIQUE INDEX entries_hash ON entries (hash, crawl);
CREATE INDEX entries_waiting ON entries (host, due, num) WHERE state = 0;
CREATE INDEX entries_leased ON entries (due) WHERE state = 1;
CREATE INDEX entries_again ON entries (crawl, due) WHERE state = 2 AND due IS NOT NULL;
CREATE INDEX entries_dead ON entries (due, num) WHERE state = 3;
CREATE INDEX entries_dead_crawl ON entries (crawl, due, num) WHERE state = 3;
CREATE INDEX entries_dead_item ON entries (item) WHERE state = 3;

CREATE TABLE seen (
    hash {bytes} NOT NULL PRIMARY KEY,
    until BIGINT NOT NULL,
    crawled SMALLINT NOT NULL,         -- 0 claimed, 1 crawled
    owner TEXT NOT NULL
) {by key};
CREATE INDEX seen_until ON seen (until);

CREATE TABLE trails (
    num {number},
    at BIGINT NOT NULL,
    took_ms BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    ended SMALLINT NOT NULL,           -- the place of the end in End::ALL
    subject {bytes},                   -- its text is in subjects
    item TEXT NOT NULL,
    flow TEXT NOT NULL,
    stage TEXT NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    error TEXT
);
CREATE INDEX trails_item ON trails (item, at, ended);
CREATE INDEX trails_at ON trails (at);

-- Which items were about what: one row for all entries of an item, so that its URL is not kept with each.
CREATE TABLE subjects (
    num {number},
    hash {bytes} NOT NULL,
    item TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX subjects_hash ON subjects (hash);
