-- Step 2: what was left out for a URL is found by that URL.

CREATE INDEX entries_left_out ON entries (crawl, substr(canonical, 1, 200)) WHERE canonical IS NOT NULL;
