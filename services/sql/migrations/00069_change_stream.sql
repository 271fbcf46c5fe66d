-- +goose Up

-- The change stream: the newest change of each user's badges, in one order.

-- head: the greatest position given. Whoever writes changes raises it under its row lock, so that positions are committed in their order.
-- token, until_us: the one node that writes changes, and when another may take over, by the database's clock.
CREATE TABLE stream_head (
    name     TEXT   NOT NULL PRIMARY KEY,
    head     BIGINT NOT NULL,
    token    TEXT   NOT NULL,
    until_us BIGINT NOT NULL,
    began_at BIGINT NOT NULL -- when the stream was first written; 0: never
);

INSERT INTO stream_head (name, head, token, until_us, began_at) VALUES ('changes', 0, '', 0, 0);

-- Users whose badges are to be compared with their last change: at once after a mark, or when time alone changes them.
CREATE TABLE stream_due (
    user_number BIGINT NOT NULL PRIMARY KEY,
    marks       BIGINT NOT NULL, -- rises with every mark
    due_at      BIGINT NOT NULL
);

CREATE INDEX stream_due_by_time ON stream_due (due_at);

CREATE TABLE stream_changes (
    user_number BIGINT NOT NULL PRIMARY KEY,
    seq         BIGINT NOT NULL, -- the position, and the version of the change
    at          BIGINT NOT NULL,
    face        BIGINT NOT NULL, -- a hash of what is shown
    state       BYTEA  NOT NULL  -- JSON
);

CREATE UNIQUE INDEX stream_changes_by_seq ON stream_changes (seq);
