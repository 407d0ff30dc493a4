-- Temporary tables and triggers of the write connection. Triggers in SQLite cannot qualify table names, so the temporary
-- table has a unique one. `OR REPLACE` has no effect in a trigger whose statement has a conflict clause of its own.

-- Without a journal a transaction copies no pages of temporary tables; after a rollback they are rebuilt.
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
