-- +goose Up

-- Times in which a follower's boards lacked a host, although the follow says that they had the host: a follow is reported with a past
-- time, or is muted or hidden. A session of a board that began in such a time goes on without the host. Rows are kept as long as
-- sessions.
CREATE TABLE follow_gaps (
    follower BIGINT NOT NULL,
    followee BIGINT NOT NULL,
    since    BIGINT NOT NULL, -- an ID of the beginning: the time of the follow, of the mute or of the hide
    until_at BIGINT NOT NULL, -- when the follow was reported, or the mute or the hide ended
    PRIMARY KEY (follower, until_at, followee)
);

CREATE INDEX follow_gaps_by_age ON follow_gaps (until_at);
