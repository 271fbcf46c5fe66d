-- +goose Up

-- What of a followed user counts for the follower, if it is not everything. follows.since is then after every post, so that none
-- counts, and followed has what it was before. The transactions that end the follow delete the row.
CREATE TABLE follow_modes (
    follower BIGINT NOT NULL,
    followee BIGINT NOT NULL,
    followed BIGINT NOT NULL, -- an ID of the time of the follow
    mode     BIGINT NOT NULL, -- 1: only shows count, 2: nothing counts
    PRIMARY KEY (follower, followee)
) WITH (fillfactor = 100);
