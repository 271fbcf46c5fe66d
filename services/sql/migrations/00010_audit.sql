-- +goose Up

-- How far the audit has come: numbers up to visited were looked at in the lap that began at lap_at. Who holds the
-- lease looks at the next ones.
CREATE TABLE audit (
    name        TEXT   NOT NULL PRIMARY KEY,
    visited     BIGINT NOT NULL,
    lap_at      BIGINT NOT NULL, -- 0: there was none yet
    token       TEXT   NOT NULL DEFAULT '', -- of the lease; '': nobody's
    lease_until BIGINT NOT NULL DEFAULT 0
);

INSERT INTO audit (name, visited, lap_at) VALUES ('users', 0, 0);
