-- +goose Up

-- The nodes that share this database; on SQLite, which serves one process, there are none.
CREATE TABLE nodes (
    name     TEXT   NOT NULL PRIMARY KEY,
    beat_at  BIGINT NOT NULL, -- the last heartbeat, by the database's clock
    clock_at BIGINT NOT NULL  -- the same moment by the node's clock
) WITH (fillfactor = 50);

ALTER TABLE jobs ADD COLUMN node TEXT NOT NULL DEFAULT ''; -- that holds the lease; '': none, or the only one there is

CREATE INDEX jobs_held ON jobs (node, id) WHERE node <> '';
