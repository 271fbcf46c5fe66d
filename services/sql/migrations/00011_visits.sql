-- +goose Up

-- When the user was here before the present visit; 0: never.
ALTER TABLE users ADD COLUMN visited_before BIGINT NOT NULL DEFAULT 0;
