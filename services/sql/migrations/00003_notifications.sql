-- +goose Up

CREATE TABLE likes (
    post     BIGINT NOT NULL,
    liker    BIGINT NOT NULL,
    liked_at BIGINT NOT NULL,
    PRIMARY KEY (post, liker)
) WITH (fillfactor = 100);

-- One row for each thing that ever notified somebody. What was undone stays with standing = false, so that it
-- has its old place when it comes back.
CREATE TABLE notification_causes (
    recipient BIGINT  NOT NULL,
    category  TEXT    NOT NULL,
    subject   BIGINT  NOT NULL,
    actor     BIGINT  NOT NULL,
    place     BIGINT  NOT NULL, -- the order of arrival at this recipient
    bucket    BIGINT  NOT NULL, -- half days since 1970: two causes of one subject and bucket are one group
    at        BIGINT  NOT NULL, -- when it happened
    standing  BOOLEAN NOT NULL,
    PRIMARY KEY (recipient, category, subject, actor)
) WITH (fillfactor = 90);

-- The unseen are a range of this index, which holds all that a recount reads.
CREATE INDEX notification_causes_unseen ON notification_causes (recipient, category, place, subject, bucket) WHERE standing;

CREATE TABLE notification_state (
    recipient BIGINT NOT NULL,
    category  TEXT   NOT NULL,
    ver       BIGINT NOT NULL, -- raised with every change
    head      BIGINT NOT NULL, -- the greatest place given
    seen      BIGINT NOT NULL, -- the greatest place seen
    PRIMARY KEY (recipient, category)
) WITH (fillfactor = 70);
