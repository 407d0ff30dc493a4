-- What a connection that writes keeps in its own memory. Triggers of SQLite cannot name a database, so what is
-- ours alone has names of its own. Nor do they replace a row by `OR REPLACE` if the statement that set them off says
-- how it fails.

-- Each transaction would first copy every page of this memory that it changes. Instead, all is read again after one
-- that is given up.
PRAGMA temp.journal_mode = OFF;

CREATE TEMP TABLE new_keys (
    hash BLOB NOT NULL,
    kind INTEGER NOT NULL,
    part INTEGER NOT NULL,
    num INTEGER NOT NULL,
    PRIMARY KEY (hash, kind, part)
) WITHOUT ROWID;

CREATE TEMP TRIGGER key_of_entry AFTER INSERT ON main.entries BEGIN
    INSERT INTO new_keys (hash, kind, part, num) VALUES (new.hash, 0, new.crawl, new.num)
    ON CONFLICT (hash, kind, part) DO UPDATE SET num = excluded.num;
END;

CREATE TEMP TRIGGER key_of_seen AFTER INSERT ON main.seen BEGIN
    INSERT INTO new_keys (hash, kind, part, num) VALUES (new.hash, 1, 0, new.num)
    ON CONFLICT (hash, kind, part) DO UPDATE SET num = excluded.num;
END;

CREATE TEMP TRIGGER key_of_subject AFTER INSERT ON main.subjects BEGIN
    INSERT INTO new_keys (hash, kind, part, num) VALUES (new.hash, 2, new.num, new.num)
    ON CONFLICT (hash, kind, part) DO UPDATE SET num = excluded.num;
END;

CREATE TEMP TRIGGER no_key_of_entry AFTER DELETE ON main.entries BEGIN
    DELETE FROM new_keys WHERE hash = old.hash AND kind = 0 AND part = old.crawl;
    DELETE FROM keys WHERE hash = old.hash AND kind = 0 AND part = old.crawl;
END;

CREATE TEMP TRIGGER no_key_of_seen AFTER DELETE ON main.seen BEGIN
    DELETE FROM new_keys WHERE hash = old.hash AND kind = 1 AND part = 0 AND num = old.num;
    DELETE FROM keys WHERE hash = old.hash AND kind = 1 AND part = 0 AND num = old.num;
END;

CREATE TEMP TRIGGER no_key_of_subject AFTER DELETE ON main.subjects BEGIN
    DELETE FROM new_keys WHERE hash = old.hash AND kind = 2 AND part = old.num;
    DELETE FROM keys WHERE hash = old.hash AND kind = 2 AND part = old.num;
END;
