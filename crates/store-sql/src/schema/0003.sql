-- Step 3, on PostgreSQL alone: the pages that can be searched. Beside SQLite they are in an index of their own.

CREATE TABLE pages (
    num {number},
    hash {bytes} NOT NULL UNIQUE,      -- of the URL
    crawled_at BIGINT NOT NULL,
    simhash BIGINT NOT NULL,
    status_code INTEGER NOT NULL,
    head_words BIGINT NOT NULL,        -- how many words the title has
    body_words BIGINT NOT NULL,        -- how many words the text has
    url TEXT COLLATE "C" NOT NULL,
    item TEXT NOT NULL,
    host TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT,
    text TEXT NOT NULL,
    head TEXT COLLATE "C" NOT NULL,    -- '@' and a domain, '.' and a word of the title, each with a space after it
    body TEXT COLLATE "C" NOT NULL     -- ',' and a word of the text, likewise
) WITH (toast_tuple_target = 256);     -- what is long is kept apart, so that going through many pages reads little

-- No array is stored: each word is a key of this index.
CREATE INDEX pages_words ON pages USING gin (string_to_array(head || body, ' '));
CREATE INDEX pages_url ON pages (substr(url, 1, 200));
CREATE INDEX pages_crawled_at ON pages (crawled_at);
