-- Step 13: whose trail may be open, so that not all trails are looked through for that. An item stands here from an entry that
-- does not end its trail until one that does, which may also be recorded first.

CREATE TABLE open_trails (
    item TEXT {octets} PRIMARY KEY,
    at BIGINT NOT NULL                 -- the time of its latest entry that does not end its trail
) {by key};
INSERT INTO open_trails (item, at)
    SELECT item, max(CASE WHEN ended NOT IN (0, 5) THEN at ELSE -1 END) FROM trails GROUP BY item
    HAVING max(CASE WHEN ended NOT IN (0, 5) THEN at ELSE -1 END) > max(CASE WHEN ended IN (0, 5) THEN at ELSE -1 END);
