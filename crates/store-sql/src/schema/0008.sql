-- Step 8, on SQLite alone: `due` of what is done is when it was crawled, no longer when it is due again; how long was in
-- between stands in the definition of the crawl.

UPDATE entries SET due = due - (SELECT CAST(json_extract(c.definition, '$.recrawl_after.secs') AS INTEGER) * 1000
                                FROM crawls c WHERE c.num = entries.crawl)
WHERE state = 2 AND due IS NOT NULL AND crawl IN
    (SELECT num FROM crawls WHERE json_valid(definition) AND json_extract(definition, '$.recrawl_after.secs') IS NOT NULL);
