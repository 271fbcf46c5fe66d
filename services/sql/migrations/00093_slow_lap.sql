-- +goose Up

-- Where the change stream's lap over the users who are not active is, because it may last longer than its writer.
ALTER TABLE stream_head ADD COLUMN slow_after BIGINT NOT NULL DEFAULT 0;    -- the last user visited; 0: no lap is under way
ALTER TABLE stream_head ADD COLUMN slow_began_at BIGINT NOT NULL DEFAULT 0; -- when the newest lap began; 0: none did
