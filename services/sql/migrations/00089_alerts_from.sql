-- +goose Up

-- When posts or shows last began to count for the user again, because a mute ended or the mode of a follow lets more count: what is older
-- alerts nobody. 0: never.
ALTER TABLE users ADD COLUMN alerts_from BIGINT NOT NULL DEFAULT 0;
