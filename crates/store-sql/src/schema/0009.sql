-- Step 9, on PostgreSQL alone: the same as step 8.

UPDATE entries SET due = due - substring(c.definition from '"recrawl_after":."secs":([0-9]+)')::bigint * 1000
FROM crawls c
WHERE c.num = entries.crawl AND entries.state = 2 AND entries.due IS NOT NULL
  AND c.definition ~ '"recrawl_after":."secs":[0-9]+';
