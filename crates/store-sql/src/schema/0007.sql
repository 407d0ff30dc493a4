-- Step 7: crawls have names and terms that change; pages keep their links; marks of seen URLs say when they were made.

ALTER TABLE crawls ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;

-- The links of pages, apart from the rows that change at every step. A row goes with its URL's.
CREATE TABLE page_links (
    entry BIGINT PRIMARY KEY,          -- the number of the URL
    links TEXT NOT NULL
);

ALTER TABLE seen ADD COLUMN marked_at BIGINT;

-- A crawl that was stopped by its page limit with URLs left is limited (4), no longer finished (3).
UPDATE crawls SET state = 4 WHERE state = 3 AND waiting > 0;
