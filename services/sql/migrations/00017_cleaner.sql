-- +goose Up

-- How far the cleaner of Redis has come. Who holds the lease goes on from there. Places and what was freed are the
-- cleaner's own words.
CREATE TABLE cleaner (
    name        TEXT   NOT NULL PRIMARY KEY,
    place       TEXT   NOT NULL, -- of the run under way; '': there is none
    freed       TEXT   NOT NULL, -- by the run under way
    began_at    BIGINT NOT NULL, -- the last run; 0: the next one is to begin at once
    token       TEXT   NOT NULL DEFAULT '', -- of the lease; '': nobody's
    lease_until BIGINT NOT NULL DEFAULT 0,
    done_at     BIGINT NOT NULL DEFAULT 0,  -- the end of the last run that came to its end; 0: none did
    done_freed  TEXT   NOT NULL DEFAULT ''  -- by it
);

INSERT INTO cleaner (name, place, freed, began_at) VALUES ('redis', '', '', 0);
