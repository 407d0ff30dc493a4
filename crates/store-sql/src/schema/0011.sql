-- Step 11, on PostgreSQL alone: tombstones of removed pages. They are rows of the same table, so that a writer and a remover of one URL
-- meet at one row, and have no text, so that no word finds them. `crawled_at` is the time of the removal.

ALTER TABLE pages ADD COLUMN removed SMALLINT NOT NULL DEFAULT 0;  -- 0 a page, 1 a page that was removed, 2 removed when there was no page
CREATE INDEX pages_removed ON pages (crawled_at) WHERE removed > 0;
