-- Step 12: how many URLs of a host wait, so that no more are kept than may be.

ALTER TABLE hosts ADD COLUMN waiting BIGINT NOT NULL DEFAULT 0;
UPDATE hosts SET waiting = (SELECT count(*) FROM entries e WHERE e.host = hosts.num AND e.state = 0)
WHERE next_at IS NOT NULL;
