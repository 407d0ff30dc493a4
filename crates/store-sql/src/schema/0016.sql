-- Step 16: the ledger of brokers that keep no state of their own. Times are milliseconds since the Unix epoch.

CREATE TABLE ledger_clock (
    one SMALLINT PRIMARY KEY,          -- 1: the only row
    seen BIGINT NOT NULL,              -- when the last process was here
    grace_until BIGINT NOT NULL        -- no session is lost before
);

CREATE TABLE ledger_sessions (
    id TEXT {octets} PRIMARY KEY,
    worker TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    lost_at BIGINT,                    -- null while it is alive
    solo_queue TEXT,                   -- the message whose solo crash its loss has counted
    solo_key TEXT
);
CREATE INDEX ledger_sessions_lease ON ledger_sessions (lease_until) WHERE lost_at IS NULL;
CREATE INDEX ledger_sessions_lost ON ledger_sessions (lost_at) WHERE lost_at IS NOT NULL;

-- Messages in hand.
CREATE TABLE ledger_taken (
    queue TEXT {octets} NOT NULL,
    key TEXT {octets} NOT NULL,
    session TEXT {octets} NOT NULL,
    solo SMALLINT NOT NULL,            -- 1 while the session's process runs nothing else
    PRIMARY KEY (queue, key)
) {by key};
CREATE INDEX ledger_taken_session ON ledger_taken (session);

-- Histories of messages that have one: suspects and retries.
CREATE TABLE ledger_messages (
    queue TEXT {octets} NOT NULL,
    key TEXT {octets} NOT NULL,
    attempts BIGINT NOT NULL,
    losses BIGINT NOT NULL,
    solo_crashes BIGINT NOT NULL,
    first_error TEXT,
    first_error_at BIGINT,
    last_error TEXT,
    last_error_at BIGINT,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (queue, key)
) {by key};
CREATE INDEX ledger_messages_changed ON ledger_messages (changed_at);

-- Dead letters. A closed one keeps its key, so that its message is not run again.
CREATE TABLE ledger_dead_letters (
    num {number},
    queue TEXT {octets} NOT NULL,
    key TEXT {octets} NOT NULL,
    detail TEXT NOT NULL,              -- JSON
    body_len BIGINT NOT NULL,
    dead_at BIGINT NOT NULL,
    epoch BIGINT NOT NULL,             -- replays that have begun
    marked_until BIGINT NOT NULL,      -- no other replay begins before
    closed_at BIGINT                   -- null while it is dead
);
CREATE UNIQUE INDEX ledger_dead_letters_key ON ledger_dead_letters (queue, key);
CREATE INDEX ledger_dead_letters_queue ON ledger_dead_letters (queue, num) WHERE closed_at IS NULL;
CREATE INDEX ledger_dead_letters_closed ON ledger_dead_letters (closed_at) WHERE closed_at IS NOT NULL;

-- Apart, since lists do without.
CREATE TABLE ledger_bodies (
    num BIGINT PRIMARY KEY,            -- of the dead letter
    body {bytes} NOT NULL
);

CREATE TABLE ledger_pauses (
    queue TEXT {octets} PRIMARY KEY
);

CREATE TABLE ledger_bindings (
    exchange TEXT {octets} NOT NULL,
    queue TEXT {octets} NOT NULL,
    pattern TEXT {octets} NOT NULL,
    PRIMARY KEY (exchange, queue, pattern)
);
CREATE INDEX ledger_bindings_queue ON ledger_bindings (queue);
