-- Step 4, on SQLite alone: one index by hash for all tables, which follows them in steps; see `keys`. PostgreSQL
-- keeps an index for each.

CREATE TABLE keys (
    hash BLOB NOT NULL,
    kind INTEGER NOT NULL,             -- 0 a URL of a crawl, 1 a seen URL, 2 a subject
    part INTEGER NOT NULL,             -- the crawl, nothing, the number of the row
    num INTEGER NOT NULL,              -- of the row
    PRIMARY KEY (hash, kind, part)
) WITHOUT ROWID;

-- Up to which row of each table the keys of a sixteenth of all hashes are in there.
CREATE TABLE keys_upto (
    range INTEGER PRIMARY KEY,
    entries INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    subjects INTEGER NOT NULL
);

-- Rows in the order of adding. No number is used twice, since a key may outlive its row.
ALTER TABLE seen RENAME TO seen_by_hash;
DROP INDEX seen_until;
CREATE TABLE seen (
    num INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL,
    until BIGINT NOT NULL,
    crawled SMALLINT NOT NULL,         -- 0 claimed, 1 crawled
    owner TEXT NOT NULL
);
INSERT INTO seen (hash, until, crawled, owner) SELECT hash, until, crawled, owner FROM seen_by_hash ORDER BY until;
DROP TABLE seen_by_hash;
CREATE INDEX seen_until ON seen (until);

ALTER TABLE subjects RENAME TO subjects_before;
DROP INDEX subjects_hash;
CREATE TABLE subjects (
    num INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL,
    item TEXT NOT NULL,
    text TEXT NOT NULL
);
INSERT INTO subjects (num, hash, item, text) SELECT num, hash, item, text FROM subjects_before ORDER BY num;
DROP TABLE subjects_before;

DROP INDEX entries_hash;
INSERT INTO keys (hash, kind, part, num)
    SELECT hash, 0, crawl, num FROM entries
    UNION ALL SELECT hash, 1, 0, num FROM seen
    UNION ALL SELECT hash, 2, num, num FROM subjects
    ORDER BY 1, 2, 3;
INSERT INTO keys_upto (range, entries, seen, subjects)
    WITH RECURSIVE ranges (range) AS (SELECT 0 UNION ALL SELECT range + 1 FROM ranges WHERE range < 15)
    SELECT range, (SELECT coalesce(max(num), 0) FROM entries), (SELECT coalesce(max(num), 0) FROM seen),
           (SELECT coalesce(max(num), 0) FROM subjects)
    FROM ranges;
