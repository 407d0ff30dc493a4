-- Step 10: notes of what went well, apart from errors, and how often items were replayed. An entry of a trail without a number of
-- replays is of an earlier version, whose notes are in `error`.

ALTER TABLE trails ADD COLUMN note TEXT;
ALTER TABLE trails ADD COLUMN replays BIGINT;
ALTER TABLE entries ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
