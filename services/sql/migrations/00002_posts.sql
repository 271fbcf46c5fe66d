-- +goose Up

CREATE TABLE posts (
    id         BIGINT NOT NULL PRIMARY KEY,
    author     BIGINT NOT NULL,
    kind       TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT -- null while it stands
);

-- Feeds are ranges of this index: one for each author followed.
CREATE INDEX posts_by_author ON posts (author, id) WHERE deleted_at IS NULL;

-- How far a user has looked, in the home feed and in any other view. Positions only grow.
CREATE TABLE user_access_log (
    user_number    BIGINT NOT NULL,
    view_code      TEXT   NOT NULL,
    view_id        TEXT   NOT NULL,
    position       BIGINT NOT NULL,
    last_access_at BIGINT NOT NULL,
    UNIQUE (user_number, view_code, view_id)
);
