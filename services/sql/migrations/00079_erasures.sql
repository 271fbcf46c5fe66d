-- +goose Up

-- Users who leave. While user_number is not 0 the user is being removed: the row of users is gone, and the key is refused. Afterwards
-- the row says how much was removed, and nothing of the user.
CREATE TABLE erasures (
    id          TEXT   NOT NULL PRIMARY KEY, -- random
    user_number BIGINT NOT NULL, -- 0: it is done
    key         TEXT   NOT NULL, -- '': it is done
    began_at    BIGINT NOT NULL,
    done_at     BIGINT NOT NULL, -- 0: not yet
    pass        BIGINT NOT NULL, -- all steps are repeated until a pass finds nothing: from 1 on
    step        TEXT   NOT NULL, -- the next step
    after       BIGINT NOT NULL, -- where in it
    found       BIGINT NOT NULL, -- what this pass removed
    counts      TEXT   NOT NULL  -- JSON: what was removed, by kind
);

CREATE UNIQUE INDEX erasures_by_user ON erasures (user_number) WHERE user_number > 0;

CREATE UNIQUE INDEX erasures_by_key ON erasures (key) WHERE key <> '';
