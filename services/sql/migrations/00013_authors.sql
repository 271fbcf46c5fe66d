-- +goose Up

-- A pulled post is in no inbox but its author's: readers' nodes have it in memory. It is decided once, when it is published.
ALTER TABLE posts ADD COLUMN pull BOOLEAN NOT NULL DEFAULT FALSE;

DROP INDEX posts_by_author;

-- Feeds are ranges of this index: one for the pushed posts of each author followed, and one for the pulled ones of
-- each who ever had any.
CREATE INDEX posts_by_author ON posts (author, pull, id) WHERE deleted_at IS NULL AND NOT off_feed;

-- Who is or was more than small, or is pinned; everybody else is small and has no row.
CREATE TABLE authors (
    author     BIGINT  NOT NULL,
    followers  BIGINT  NOT NULL, -- as counted last, no further than the threshold of the huge
    counted_at BIGINT  NOT NULL, -- when that was
    mode       BIGINT  NOT NULL, -- how their posts are carried: 0 small, 1 big, 2 huge
    pinned     BIGINT,           -- the mode that an admin chose; null: it goes by the followers
    pull       BOOLEAN NOT NULL, -- they were to be huge once: their followers' documents name them from then on
    unnamed    BIGINT  NOT NULL, -- chunks of followers whose documents do not name them yet
    ver        BIGINT  NOT NULL, -- rises with every change
    PRIMARY KEY (author)
) WITH (fillfactor = 70);

CREATE INDEX authors_pulled ON authors (author) WHERE pull;

-- What admins have set; without a row the configuration holds.
CREATE TABLE fanout_thresholds (
    name TEXT   NOT NULL PRIMARY KEY,
    big  BIGINT NOT NULL, -- followers from which on an author is big
    huge BIGINT NOT NULL
);

-- Posts that are on their way to their followers, in more than one chunk.
CREATE TABLE fanouts (
    post     BIGINT NOT NULL,
    author   BIGINT NOT NULL,
    chunks   BIGINT NOT NULL, -- that are still to be done
    began_at BIGINT NOT NULL,
    PRIMARY KEY (post)
) WITH (fillfactor = 70);
