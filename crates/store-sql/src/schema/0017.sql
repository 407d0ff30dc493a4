-- Step 17, on PostgreSQL alone: the rate limiter as states of groups, with the rules in the program. The previous version has
-- no tables any more, so that its workers fail instead of breaking minimum delays. As before, nothing is logged: a crash of the
-- server empties these tables, and every group waits one minimum delay first.

-- Back-off of the previous version, until the first rate limiter is opened.
CREATE UNLOGGED TABLE rate_limiter_previous AS
    SELECT name, blocks, since, left_until, openings FROM gate_lanes WHERE blocks IS NOT NULL;

DROP TYPE IF EXISTS gate_policy CASCADE;
DROP TABLE IF EXISTS gate_life, gate_lanes, gate_flight, gate_line;

CREATE UNLOGGED TABLE rate_limiter_epoch (
    one SMALLINT PRIMARY KEY CHECK (one = 1),
    born BIGINT NOT NULL               -- since when the data is valid
);

CREATE UNLOGGED TABLE rate_limiter_groups (
    name TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    written BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    state BYTEA NOT NULL
);

-- Places in line by ticket.
CREATE UNLOGGED TABLE rate_limiter_places (
    name TEXT COLLATE "C" NOT NULL,
    ticket UUID NOT NULL,
    place BIGINT NOT NULL,
    written BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    PRIMARY KEY (name, ticket)
);
