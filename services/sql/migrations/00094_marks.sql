-- +goose Up

-- The last marks of site messages, the newest first, each 'the last ID it covers@its microsecond '. What is told after several marks
-- was read at the first that covers it.
ALTER TABLE site_message_state ADD COLUMN marks TEXT NOT NULL DEFAULT '';
