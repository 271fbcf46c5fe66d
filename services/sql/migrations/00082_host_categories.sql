-- +goose Up

INSERT INTO counters (name, value) VALUES ('notification_categories', 0);

-- The categories of notifications that the host application defined.
CREATE TABLE notification_categories (
    name       TEXT    NOT NULL PRIMARY KEY,
    id         BIGINT  NOT NULL UNIQUE, -- names its fields in the badge documents; never given again
    expiry     BIGINT  NOT NULL, -- days; 0: never
    grouped    BOOLEAN NOT NULL,
    mode       BIGINT  NOT NULL, -- 0 counted, 1 dot, 3 counted apart from the total
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    removed_at BIGINT  NOT NULL -- 0: it is not removed; else its notifications are being deleted
);

-- What the host application told. The causes of its recipients have its ID as their object.
CREATE TABLE host_notifications (
    id           BIGINT NOT NULL PRIMARY KEY,
    category     TEXT   NOT NULL,
    subject      BIGINT NOT NULL, -- of its causes: of the group key, or the ID itself
    group_key    TEXT   NOT NULL, -- '': none
    actor        BIGINT NOT NULL, -- 0: none
    about_type   TEXT   NOT NULL, -- post, show; '': nothing of ours
    about        BIGINT NOT NULL,
    title        TEXT   NOT NULL,
    body         TEXT   NOT NULL,
    at           BIGINT NOT NULL, -- when it happened
    recipients   BIGINT NOT NULL,
    withdrawn_at BIGINT NOT NULL  -- 0: it stands
);

CREATE INDEX host_notifications_by_actor ON host_notifications (actor, id) WHERE actor > 0;

CREATE INDEX host_notifications_by_category ON host_notifications (category, id);

-- The recipients of a notification, and the users who have any of a category: for withdrawals and removals. Its condition is repeated by
-- the statements that use it. It leaves out the categories of this day; rows of later ones are in it, and do no harm.
CREATE INDEX notification_causes_of_host ON notification_causes (object, recipient)
    WHERE object > 0 AND category NOT IN ('LIKE', 'COMMENT', 'MENTION', 'FOLLOW', 'REMINDER');

CREATE INDEX notification_state_of_host ON notification_state (category, recipient)
    WHERE category NOT IN ('LIKE', 'COMMENT', 'MENTION', 'FOLLOW', 'REMINDER');
