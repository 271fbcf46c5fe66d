-- +goose Up

-- A follow of which the feed shows nothing stays: the follower mutes the followee, or the followee hides their posts
-- from the follower. Every feed and every fan-out reads shown alone; the transactions that change its reasons keep it.
CREATE TABLE follows_shown (
    follower BIGINT  NOT NULL,
    followee BIGINT  NOT NULL,
    since    BIGINT  NOT NULL, -- posts after this one count
    shown    BOOLEAN NOT NULL,
    PRIMARY KEY (follower, followee) INCLUDE (since, shown)
) WITH (fillfactor = 100);

INSERT INTO follows_shown (follower, followee, since, shown) SELECT follower, followee, since, TRUE FROM follows;

DROP TABLE follows;

ALTER TABLE follows_shown RENAME TO follows;

CREATE UNIQUE INDEX follows_by_followee ON follows (followee, follower) INCLUDE (since, shown);

-- What a user has put between them and another, each with an id of its time by which it is listed.
CREATE TABLE mutes (
    muter BIGINT NOT NULL,
    muted BIGINT NOT NULL,
    made  BIGINT NOT NULL,
    until BIGINT NOT NULL, -- 0: until it is ended
    PRIMARY KEY (muter, muted)
) WITH (fillfactor = 90);

CREATE UNIQUE INDEX mutes_listed ON mutes (muter, made);

CREATE TABLE blocks (
    blocker BIGINT NOT NULL,
    blocked BIGINT NOT NULL,
    made    BIGINT NOT NULL,
    PRIMARY KEY (blocker, blocked)
) WITH (fillfactor = 90);

CREATE UNIQUE INDEX blocks_listed ON blocks (blocker, made);

-- The users that an author hides posts from, followers or not.
CREATE TABLE hides (
    author   BIGINT NOT NULL,
    follower BIGINT NOT NULL,
    made     BIGINT NOT NULL,
    PRIMARY KEY (author, follower)
) WITH (fillfactor = 90);

CREATE UNIQUE INDEX hides_listed ON hides (author, made);
