-- +goose Up

-- What read_to was before the last "mark all read", which can be undone.
ALTER TABLE notification_state ADD COLUMN undo_to BIGINT NOT NULL DEFAULT 0;
