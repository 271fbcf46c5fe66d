-- +goose Up

-- How far marks of a past time reach: what is told later and happened before is read. 0: there was no such mark.

-- An ID of site messages.
ALTER TABLE site_message_state ADD COLUMN read_to BIGINT NOT NULL DEFAULT 0;

-- A position of notifications.
ALTER TABLE notification_state ADD COLUMN read_to BIGINT NOT NULL DEFAULT 0;
