-- Step 19: access tokens of the gateway. Times are milliseconds since the Unix epoch.

CREATE TABLE tokens (
    num {number},                      -- order of addition
    id TEXT {octets} NOT NULL,         -- public
    hash {bytes} NOT NULL,             -- SHA-256 of the token
    email TEXT {octets} NOT NULL,
    role TEXT NOT NULL,                -- user or admin
    created_at BIGINT NOT NULL,
    expires_at BIGINT,                 -- null for never
    revoked_at BIGINT                  -- null while it is valid
);
CREATE UNIQUE INDEX tokens_id ON tokens (id);
CREATE UNIQUE INDEX tokens_hash ON tokens (hash);
