-- +goose Up

-- The position of the first cause that a group ever had, which is its id: it stays while others join and go.
ALTER TABLE notification_groups ADD COLUMN first BIGINT NOT NULL DEFAULT 0;

UPDATE notification_groups SET first = COALESCE((SELECT min(c.place) FROM notification_causes c
    WHERE c.recipient = notification_groups.recipient AND c.category = notification_groups.category
        AND c.subject = notification_groups.subject AND c.bucket = notification_groups.bucket), 0);
