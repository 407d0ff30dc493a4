-- Step 20: ends of requests, for their retention. Those that ended before count from their creation.

ALTER TABLE crawl_requests ADD COLUMN ended_at BIGINT;
UPDATE crawl_requests SET ended_at = created WHERE status <> 'pending' AND deleted_at IS NULL;
CREATE INDEX crawl_requests_ended ON crawl_requests (ended_at) WHERE ended_at IS NOT NULL;
