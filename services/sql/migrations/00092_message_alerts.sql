-- +goose Up

-- When the mute of a conversation last ended for the user: what was said before alerts nobody. 0: never.
ALTER TABLE users ADD COLUMN messages_alert_from BIGINT NOT NULL DEFAULT 0;
