-- +goose Up

-- The greatest position of a notification that was shown and is gone for good: its actor was erased, or its category removed.
ALTER TABLE notification_heads ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;
