-- Step 6, on PostgreSQL alone: the gate. Nothing of it is logged: a crash of the server empties these tables, a standby that
-- takes over has them empty, and an empty gate begins a new life, in which every group waits one gap first. So no request waits
-- for the disk, and no gap is broken.

CREATE UNLOGGED TABLE gate_life (
    only_one BOOLEAN PRIMARY KEY CHECK (only_one),
    born BIGINT NOT NULL,              -- when this life began
    seen BIGINT NOT NULL,              -- the last time that was noted
    shift BIGINT NOT NULL,             -- by how much the clock was set back so far, below zero
    lanes BIGINT NOT NULL              -- how many lanes there are
);

CREATE UNLOGGED TABLE gate_lanes (
    name TEXT COLLATE "C" PRIMARY KEY, -- of the group
    seen BIGINT NOT NULL,
    started BIGINT,                    -- the last start of a request
    ended BIGINT,                      -- the last end
    gap BIGINT NOT NULL,
    mean BIGINT,                       -- how long requests take, and how far off that was lately
    off_by BIGINT,
    moved BIGINT NOT NULL,             -- by how much the whole line was moved
    blocks BIGINT,                     -- failures in a row, if there were any
    since BIGINT,                      -- when the last of them was
    left_until BIGINT,
    openings BIGINT,                   -- of the breaker, in a row
    probe BIGINT,                      -- the permit that finds out
    numbered BIGINT,                   -- the last digits of the last permit
    forget BIGINT NOT NULL,            -- when nothing is to be known of the group any more
    forget_mark BIGINT NOT NULL        -- the same less the shift
);

CREATE INDEX gate_lanes_forget ON gate_lanes (forget_mark);

CREATE UNLOGGED TABLE gate_flight (
    name TEXT COLLATE "C" NOT NULL,
    id BIGINT NOT NULL,
    started BIGINT NOT NULL,
    ends BIGINT NOT NULL,              -- its lease
    PRIMARY KEY (name, id)
);

CREATE UNLOGGED TABLE gate_line (
    name TEXT COLLATE "C" NOT NULL,
    ticket UUID NOT NULL,
    mark BIGINT NOT NULL,              -- the time of the slot less what the line was moved by
    PRIMARY KEY (name, ticket)
);

CREATE INDEX gate_line_order ON gate_line (name, mark, ticket);

CREATE TYPE gate_policy AS (
    lease BIGINT, grace BIGINT, first BIGINT, most BIGINT, failures BIGINT, cool_down BIGINT, longest_open BIGINT,
    first_guess BIGINT, idle BIGINT, grudge BIGINT, most_groups BIGINT, longest_line BIGINT
);
