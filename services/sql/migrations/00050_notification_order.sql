-- +goose Up

-- A list is in the order in which its causes happened; marks go by the order in which they arrived, which is another one when a
-- job came late.
ALTER TABLE notification_groups ADD COLUMN at BIGINT NOT NULL DEFAULT 0; -- when the newest standing cause happened; 0: none stands

UPDATE notification_groups SET at = COALESCE((SELECT max(c.at) FROM notification_causes c
    WHERE c.recipient = notification_groups.recipient AND c.category = notification_groups.category
        AND c.subject = notification_groups.subject AND c.bucket = notification_groups.bucket AND c.standing), 0)
WHERE newest > 0;

-- The causes of a group, the latest to happen last, with all that a list shows of them.
CREATE INDEX notification_causes_by_time ON notification_causes (recipient, category, subject, bucket, at, object, actor) WHERE standing;

DROP INDEX notification_groups_listed;

-- A list is a range of one of these indexes for each category.
CREATE INDEX notification_groups_listed ON notification_groups (recipient, category, at, subject) WHERE newest > 0;

CREATE INDEX notification_groups_listed_unread ON notification_groups (recipient, category, at, subject) WHERE newest > read_to;
