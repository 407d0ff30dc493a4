-- Step 15, on SQLite alone: how the clock stood when the times in this file were written, in one row.

CREATE TABLE IF NOT EXISTS clock_anchor (
    boot TEXT NOT NULL,                -- of the machine
    stood INTEGER NOT NULL             -- the clock less the time since boot, in milliseconds
);
