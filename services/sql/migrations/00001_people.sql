-- +goose Up

-- Written for PostgreSQL; dialect.go makes SQLite's text from it.
-- Every time is microseconds since 1970, every post id and place a 63-bit number.

-- A counter is the last number given; its row lock makes the numbers dense.
CREATE TABLE counters (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('users', 0);

CREATE TABLE users (
    number     BIGINT NOT NULL PRIMARY KEY,
    key        TEXT   NOT NULL UNIQUE,
    name       TEXT   NOT NULL DEFAULT '',
    avatar_url TEXT   NOT NULL DEFAULT '',
    updated_at BIGINT NOT NULL DEFAULT 0, -- the last change of the profile; 0: never
    seen_at    BIGINT NOT NULL DEFAULT 0  -- the last request; 0: never
);

CREATE TABLE follows (
    follower BIGINT NOT NULL,
    followee BIGINT NOT NULL,
    since    BIGINT NOT NULL, -- posts after this one count
    PRIMARY KEY (follower, followee) INCLUDE (since)
) WITH (fillfactor = 100);

CREATE UNIQUE INDEX follows_by_followee ON follows (followee, follower) INCLUDE (since);

-- How far an import has come, by the identity of its source.
CREATE TABLE imports (
    source TEXT   NOT NULL PRIMARY KEY,
    line   BIGINT NOT NULL
);
