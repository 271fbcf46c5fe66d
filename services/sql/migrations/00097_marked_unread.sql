-- +goose Up

-- Whether the user has marked messages as unread, and has neither entered, written, nor read all of them since. While it is true,
-- the devices that had the conversation open read nothing.
ALTER TABLE conversation_members ADD COLUMN marked BOOLEAN NOT NULL DEFAULT FALSE;
